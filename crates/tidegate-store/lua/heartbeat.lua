-- Which of several processes adapts what they share: one of them leads. It has a lease, gets what all report, and
-- publishes what it decides. KEYS: lease, members, reports, overlay. ARGV: now, who asks, how often it has asked, its
-- report, for how long a lease and a report last, how many members there may be, the term in which it decides (0: it
-- does not), for how long its overlay lasts, and that overlay (absent: there shall be none). Reply: the term, the
-- overlay in force as term, version, time left and text (nil: none), and to the leader all reports as member, age,
-- number and text (nil to others).
local me, turn, report = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local lease_span, report_span, room = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local decided_in, overlay_span, decided = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]

-- Everything is read before anything is written: a script that ends with an error has changed nothing.
local raw_lease, raw_members = redis.call('GET', KEYS[1]), redis.call('HGETALL', KEYS[2])
local raw_overlay = redis.call('GET', KEYS[4])

local overlay, is_changed = false, false
local ends, span, term, number, version, leader = 0, 0, 0, 0, 0, ''
if raw_lease then
  local rest
  ends, span, term, number, version, rest = struct.unpack('<ddddd', raw_lease)
  leader = string.sub(raw_lease, rest)
end
-- A clock that was set back makes nothing last longer: an end is never further away than it was when it was set.
ends = math.min(ends, now + span)
if raw_overlay then
  local o, rest = {}, nil
  o.ends, o.span, o.term, o.version, rest = struct.unpack('<dddd', raw_overlay)
  o.text, is_changed = string.sub(raw_overlay, rest), o.ends > now + o.span
  o.ends = math.min(o.ends, now + o.span)
  overlay = now < o.ends and o
  term, version = math.max(term, o.term), math.max(version, o.version)
end

-- Terms, versions and numbers of reports grow, also after Redis has forgotten them.
local function after(last) return math.max(last + 1, now) end

if now >= ends then
  leader, term = me, after(term) -- also if it was mine: what I decided before it ran out is old
end
local is_leader = leader == me
if is_leader then ends, span = now + lease_span, lease_span end

local others, gone = {}, {}
for i = 1, #raw_members, 2 do
  local id, at, its_number, its_turn = raw_members[i], struct.unpack('<ddd', raw_members[i + 1])
  if id ~= me then
    local other = { id = id, at = math.min(at, now), number = its_number, turn = its_turn, is_moved = at > now }
    if now - other.at < report_span then others[#others + 1] = other else gone[#gone + 1] = id end
  elseif its_turn >= turn then
    return { err = 'OUTDATED a later call of this member was carried out before' }
  end
end
table.sort(others, function(a, b) return a.number < b.number end)
while #others >= room do gone[#gone + 1] = table.remove(others, 1).id end

local reports = false
if is_leader then
  reports = {}
  local ids = {}
  for i, other in ipairs(others) do ids[i] = other.id end
  local texts = redis.call('HMGET', KEYS[3], '', unpack(ids)) -- it wants one at least: nobody has that name
  for i, other in ipairs(others) do
    -- A text that was lost alone will be there again with its member's next report.
    if texts[i + 1] then reports[#reports + 1] = { other.id, now - other.at, other.number, texts[i + 1] } end
  end
else
  redis.call('HLEN', KEYS[3]) -- is it what we can write to?
end

-- Decided in this very term: a leader that lost the lease since then, and be it to itself, publishes nothing.
if is_leader and decided_in == term then
  is_changed = true
  if decided then
    local is_same = overlay and overlay.text == decided
    version = is_same and overlay.version or after(version)
    overlay = { ends = now + overlay_span, span = overlay_span, term = term, version = version, text = decided }
  else
    overlay = false
  end
end

number = after(number)
if reports then reports[#reports + 1] = { me, 0, number, report } end

if #raw_members == 0 then redis.call('DEL', KEYS[3]) end -- whose they were nobody knows
if #gone > 0 then
  redis.call('HDEL', KEYS[2], unpack(gone))
  redis.call('HDEL', KEYS[3], unpack(gone))
end
for _, other in ipairs(others) do
  if other.is_moved then
    redis.call('HSET', KEYS[2], other.id, struct.pack('<ddd', other.at, other.number, other.turn))
  end
end
redis.call('HSET', KEYS[2], me, struct.pack('<ddd', now, number, turn))
redis.call('HSET', KEYS[3], me, report)
local function ttl(left) return ceil(left / 1000) + 1 end
redis.call('PEXPIRE', KEYS[2], ttl(report_span))
redis.call('PEXPIRE', KEYS[3], ttl(report_span))
local lease = struct.pack('<ddddd', ends, span, term, number, version) .. leader
redis.call('SET', KEYS[1], lease, 'PX', ttl(math.max(span, lease_span, report_span)))
if is_changed and overlay then
  local o = overlay
  redis.call('SET', KEYS[4], struct.pack('<dddd', o.ends, o.span, o.term, o.version) .. o.text, 'PX', ttl(o.ends - now))
elseif is_changed then
  redis.call('DEL', KEYS[4])
end

return { term, overlay and { overlay.term, overlay.version, overlay.ends - now, overlay.text }, reports }
