-- Returns what an admitted request took. ARGV: now, then algorithm, three numbers, cost and the receipt of each level.
-- The numbers are those the receipt was issued under; a key that has others by now keeps them.
local key = 1
for arg = 2, #ARGV, 9 do
  local algorithm = algorithms[ARGV[arg]]
  local a = {}
  for i = 1, 8 do a[i] = tonumber(ARGV[arg + i]) end
  local state, n = algorithm.read(KEYS[key], nil, KEYS[key + 1])
  if n and algorithm.is_same(n, algorithm.numbers(a[1], a[2], a[3])) then
    algorithm.give_back(state, n, a[4], a[5], a[6], a[7], a[8])
    if state.dirty then algorithm.write(KEYS[key], state, n) end
  end
  key = key + (algorithm.keys or 1)
end
return { now }
