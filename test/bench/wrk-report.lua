-- Requests go round the keys of a file, where one is named; the result is one line of JSON.
local keys = {}
local at = 0
local delay_ms = tonumber(os.getenv("BENCH_DELAY_MS") or "0")

function init()
  local file = os.getenv("BENCH_KEYS_FILE")
  if not file then return end
  for line in io.lines(file) do keys[#keys + 1] = line end
  -- A run goes on where the one before it ended.
  at = tonumber(os.getenv("BENCH_FIRST_KEY") or "0") % #keys
  request = function()
    at = at % #keys + 1
    wrk.headers["Authorization"] = "Bearer " .. keys[at]
    return wrk.format()
  end
end

if delay_ms > 0 then
  -- Spread around the mean, so that connections don't come in waves.
  function delay() return math.random(0, 2 * delay_ms) end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"durationUs":%d,"p50Us":%d,"p99Us":%d,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
