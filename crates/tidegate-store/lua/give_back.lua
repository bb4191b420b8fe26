-- Returns what an admitted request took. ARGV: now, then algorithm, three numbers, cost and the receipt of each level.
local key = 1
for arg = 2, #ARGV, 9 do
  local algorithm = algorithms[ARGV[arg]]
  local numbers = {}
  for i = 1, 8 do numbers[i] = tonumber(ARGV[arg + i]) end
  local n = algorithm.numbers(numbers[1], numbers[2], numbers[3])
  local state = algorithm.read(KEYS[key], n, KEYS[key + 1])
  algorithm.give_back(state, n, numbers[4], numbers[5], numbers[6], numbers[7], numbers[8])
  if state.dirty then algorithm.write(KEYS[key], state, n) end
  key = key + (algorithm.keys or 1)
end
return { now }
