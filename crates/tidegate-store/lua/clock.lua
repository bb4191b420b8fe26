-- Every number is a double, exact up to 2^53; the callers reject limits whose products go beyond. Times are
-- microseconds. The caller may say what time it is (tests do); otherwise it is this server's clock, the same for all
-- who share it.
local floor, ceil = math.floor, math.ceil
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- An algorithm is a table of steps over a state: read, write, decide, take, give_back, settle, grant. Its numbers are
-- `n`.
local algorithms = {}

-- How much of `free` a lease gets: at most half of it, so that others find some too, but what is needed at once.
local function share(free, want, need)
  if free < need or free < 1 then return 0 end
  return math.min(want, math.max(need, ceil(free / 2)))
end
