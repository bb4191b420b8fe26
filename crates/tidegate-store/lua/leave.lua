-- A member of an election leaves: its lease is free at once, its report no longer counts. What it has published stays
-- until the next leader decides, or its time is over. KEYS as in heartbeat.lua. ARGV: who leaves.
local me, raw = ARGV[1], redis.call('GET', KEYS[1])
redis.call('HLEN', KEYS[2])
redis.call('HLEN', KEYS[3])
if raw then
  local _, _, term, number, version, rest = struct.unpack('<ddddd', raw)
  if string.sub(raw, rest) == me then
    -- Terms and numbers go on from here.
    local ttl = math.max(1, redis.call('PTTL', KEYS[1]))
    redis.call('SET', KEYS[1], struct.pack('<ddddd', 0, 0, term, number, version), 'PX', ttl)
  end
end
redis.call('HDEL', KEYS[2], me)
redis.call('HDEL', KEYS[3], me)
return 1
