-- What a user would write instead of Postern: digest, LRU, Redis, expiry, workspace binding and scope, in nginx.
local sha256 = require "nginx.sha256"
local to_hex = require("nginx.string").to_hex
local lrucache = require "resty.lrucache"
local redis = require "nginx.redis"

local records = lrucache.new(100000)
local TTL_SECONDS = 30

local function refuse(status, code, text)
  ngx.status = status
  ngx.header["Content-Type"] = "application/json; charset=utf-8"
  ngx.header["Cache-Control"] = "no-store"
  if status == 401 then ngx.header["WWW-Authenticate"] = 'Bearer realm="lua", error="invalid_token"' end
  ngx.print('{"code":"', code, '","error":"', text, '"}')
  return ngx.exit(status)
end

local function ask_redis(digest)
  local client = redis:new()
  client:set_timeout(1000)
  local connected = client:connect("127.0.0.1", tonumber(ngx.var.redis_port))
  if not connected then return nil, "down" end
  local text, err = client:get("lua:key:" .. digest)
  client:set_keepalive(10000, 64)
  if not text then return nil, err end
  if text == ngx.null then return false end
  local workspace, key_id, expires, scopes = text:match("^(%S+) (%S+) (%d+) (.*)$")
  if not workspace then return nil, "unreadable" end
  return { workspace = workspace, key_id = key_id, expires = tonumber(expires), scopes = scopes }
end

local function scope_of(rest)
  if rest == nil or rest == "" then return "workspace:read" end
  if rest == "/files" then return "files:read" end
end

return function()
  local asked, rest = ngx.var.uri:match("^/api/v1/workspaces/([%w._~-]+)(/?[^/]*)$")
  local scope = asked and scope_of(rest)
  if not scope then return refuse(404, "not_found", "There is no such resource") end

  local field = ngx.var.http_authorization
  local key = field and field:match("^[Bb]earer +(%S+)$")
  if not key then return refuse(401, "key_missing", "Send one API key") end

  local hash = sha256:new()
  hash:update(key)
  local digest = to_hex(hash:final())
  local record = records:get(digest)
  if record == nil then
    local found, trouble = ask_redis(digest)
    if trouble then return refuse(503, "key_store_unavailable", "The API key cannot be verified at the moment") end
    record = found
    records:set(digest, record, TTL_SECONDS)
  end
  if not record then return refuse(401, "key_invalid", "The API key is not valid") end
  if record.expires <= ngx.time() then return refuse(401, "key_expired", "The API key has expired") end
  if record.workspace ~= asked then return refuse(404, "not_found", "There is no such resource") end
  if not record.scopes:find(scope, 1, true) then return refuse(403, "scope_missing", "The API key lacks the scope") end

  ngx.var.workspace = record.workspace
  ngx.var.key_id = record.key_id
  ngx.var.scopes = record.scopes
end
