/** The beginning of a script that returns an error for a command which the user may not run. It leaves no line in ACL LOG. */
export const NEED = `
local function need(...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(...) then
    return redis.error_reply("NOPERM User has no permissions to run the '" .. string.lower(...) .. "' command here")
  end
end`
