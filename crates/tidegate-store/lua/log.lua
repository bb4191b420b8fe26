-- The exact log, and with `give_back` the concurrency limit. State: used, latest, seq, window; the admissions stand in
-- a sorted set beside it, member "seq:cost" ("Lid:cost" for a lease, "Pid:cost" for a slot that the caller has named),
-- score = when. A clock that goes back counts as standing still.

local log = { keys = 2 }

function log.numbers(a, b, id) return { limit = a, window = b, id = id } end

local function tokens_of(member) return tonumber(string.match(member, ':(%d+)$')) end

-- What has left the window by now is not counted; it is removed when something is taken, for a rejected request changes
-- nothing.
local function look(s, window)
  s.expired_until = string.format('%.0f', math.max(now, s.latest) - window)
  s.expired = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', s.entries, '-inf', s.expired_until)) do
    s.expired = s.expired + tokens_of(member)
  end
end

local function forget_expired(s)
  if s.expired == 0 then return end
  redis.call('ZREMRANGEBYSCORE', s.entries, '-inf', s.expired_until)
  s.used, s.expired, s.dirty = s.used - s.expired, 0, true
end

-- The state at this moment. Without `n`, under the numbers it was kept under, which are returned with it.
function log.read(key, n, entries)
  -- A state that starts anew never repeats a number of one that has ended: late receipts would find others' entries by
  -- them.
  local s = { used = 0, latest = 0, seq = now, expired = 0, entries = entries }
  local raw = redis.call('GET', key)
  if not raw then
    redis.call('DEL', entries)
    return s, n
  end
  local window
  s.used, s.latest, s.seq, window = struct.unpack('<dddd', raw)
  n = n or { window = window }
  look(s, window)
  if window ~= n.window then
    forget_expired(s)
    s.latest, s.dirty = math.max(now, s.latest), true
    look(s, n.window)
  end
  return s, n
end

-- An entry is found by its name, whatever the numbers are now.
function log.is_same() return true end

local function latest_entry(s)
  local last = redis.call('ZREVRANGE', s.entries, 0, 0, 'WITHSCORES')
  return last[2] and tonumber(last[2]) or 0
end

function log.write(key, s, n)
  local left = math.max(now, s.latest, latest_entry(s)) + n.window - now
  local ttl = ceil(left / 1000) + 1
  redis.call('SET', key, struct.pack('<dddd', s.used, s.latest, s.seq, n.window), 'PX', ttl)
  redis.call('PEXPIRE', s.entries, ttl)
end

-- When so many entries have left the window that `tokens` of them are gone.
local function gone_after(s, n, tokens)
  local from, gone, step = 0, 0, 32
  while true do
    local some = redis.call('ZRANGE', s.entries, from, from + step - 1, 'WITHSCORES')
    if #some == 0 then return 0 end
    for i = 1, #some, 2 do
      gone = gone + tokens_of(some[i])
      if gone >= tokens then return math.max(0, tonumber(some[i + 1]) + n.window - now) end
    end
    from, step = from + step, math.min(step * 2, 2048)
  end
end

function log.decide(s, n, cost)
  local left = math.max(0, n.limit - s.used + s.expired)
  if cost <= left then return true, left - cost, math.max(now, s.latest) + n.window - now, 0, 0 end
  local reset = s.used > 0 and math.max(0, latest_entry(s) + n.window - now) or 0
  if cost > n.limit then return false, left, reset, -1, 0 end
  return false, left, reset, gone_after(s, n, s.used + cost - n.limit), 0
end

local function add(s, at, name, tokens)
  redis.call('ZADD', s.entries, string.format('%.0f', at), name .. ':' .. string.format('%.0f', tokens))
  s.used = s.used + tokens
end

-- A receipt's number below zero is the name that the caller gave it.
local function entry_name(number)
  return number < 0 and 'P' .. string.format('%.0f', -number) or string.format('%.0f', number)
end

function log.take(s, n, cost)
  forget_expired(s)
  s.latest, s.seq = math.max(now, s.latest), s.seq + 1
  local number = n.id and n.id > 0 and -n.id or s.seq
  add(s, s.latest, entry_name(number), cost)
  return s.latest, 0, 0, number
end

local function remove(s, name, tokens)
  if redis.call('ZREM', s.entries, name .. ':' .. string.format('%.0f', tokens)) == 0 then return false end
  s.used, s.dirty = s.used - tokens, true
  return true
end

function log.give_back(s, n, cost, at, owed, returned, seq)
  remove(s, entry_name(seq), cost)
end

-- An open lease stands in the log at its end, as if it were all spent then. What is known to be spent moves to now.
local function lease_name(id) return 'L' .. string.format('%.0f', id) end

function log.settle(s, n, lease)
  forget_expired(s)
  if lease.held == 0 or not remove(s, lease_name(lease.id), lease.held) then return false end
  if lease.spent > 0 then log.take(s, n, lease.spent) end
  if lease.keep then lease.carried = lease.held - lease.spent end
  return lease.keep
end

function log.grant(s, n, lease, amount)
  local total = amount + lease.carried
  if total > 0 then add(s, math.max(now, s.latest) + lease.ttl, lease_name(lease.new_id), total) end
  return lease.ttl
end
