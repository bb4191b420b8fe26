-- Takes tokens in advance for a process, which then spends them by itself. KEYS as in exact.lua. ARGV: now, then for
-- each level algorithm, three numbers, the id of the lease it has and of the one it will have, held and spent of the
-- first, when that was granted, whether it keeps what is unspent (or returns it), how much more it wants, how much it
-- needs at once, and for how long. Reply: now, then for each level: granted, kept, for how long, remaining, reset,
-- retry (0 if granted, -1: never).
local reply = { now }
local key = 1
for arg = 2, #ARGV, 13 do
  local algorithm = algorithms[ARGV[arg]]
  local a = {}
  for i = 1, 12 do a[i] = tonumber(ARGV[arg + i]) end
  local n = algorithm.numbers(a[1], a[2], a[3])
  local lease = { id = a[4], new_id = a[5], held = a[6], spent = a[7], at = a[8], keep = a[9] == 1 }
  lease.carried, lease.ttl = 0, a[12]
  local want, cost = a[10], a[11]
  local all = (n.full or n.limit) + 1 -- more than there can be: asks how much is left
  local state = algorithm.read(KEYS[key], n, KEYS[key + 1])
  local kept = algorithm.settle(state, n, lease)
  local need = math.max(0, cost - (kept and lease.held - lease.spent or 0))
  local _, free = algorithm.decide(state, n, all)
  -- It may want less than it needs, if it counted on what it can't keep.
  local granted = share(free - lease.carried, math.max(want, need), need)
  local span = 0
  if granted > 0 or kept then span = algorithm.grant(state, n, lease, granted) end
  local _, left, reset = algorithm.decide(state, n, all)
  local retry = 0
  if need > granted then
    local _, _, _, never = algorithm.decide(state, n, cost)
    local _, _, _, later = algorithm.decide(state, n, need)
    retry = never == -1 and -1 or later
  end
  algorithm.write(KEYS[key], state, n)
  for _, number in ipairs({ granted, kept and 1 or 0, span, left, reset, retry }) do reply[#reply + 1] = number end
  key = key + (algorithm.keys or 1)
end
return reply
