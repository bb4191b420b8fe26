-- All limits of one request: every one is asked, then all are charged or none. KEYS: each level's (a log has two).
-- ARGV: now, commit, then algorithm, cost and three numbers of each level. Reply: now, then for each level: admitted,
-- remaining, reset, retry (-1: never), wait, and the receipt's at, owed, returned, run.
local commit = ARGV[2] == '1'
local levels, states, count, key = {}, {}, 0, 1
local reply, index = { now, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 1
local charge = commit
for arg = 3, #ARGV, 5 do
  local algorithm, cost, name = algorithms[ARGV[arg]], tonumber(ARGV[arg + 1]), KEYS[key]
  local n = algorithm.numbers(tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]), tonumber(ARGV[arg + 4]))
  local state, asked = states[name], cost
  if state then
    asked = cost + state.asked -- the same key named twice pays the sum
  else
    state = algorithm.read(name, n, KEYS[key + 1])
    states[name] = state
  end
  state.asked = asked
  local admitted, remaining, reset, retry, wait = algorithm.decide(state, n, asked)
  charge = charge and admitted
  reply[index + 1], reply[index + 2], reply[index + 3] = admitted and 1 or 0, remaining, reset
  reply[index + 4], reply[index + 5] = retry, wait
  reply[index + 6], reply[index + 7], reply[index + 8], reply[index + 9] = 0, 0, 0, 0
  index, key, count = index + 9, key + (algorithm.keys or 1), count + 1
  levels[count] = { algorithm = algorithm, n = n, cost = cost, state = state, key = name }
end

for i, level in ipairs(levels) do
  if charge then
    index = 9 * i - 2
    local at, owed, returned, run = level.algorithm.take(level.state, level.n, level.cost)
    reply[index], reply[index + 1], reply[index + 2], reply[index + 3] = at, owed, returned, run
    level.state.dirty = true
  end
end
for _, level in ipairs(levels) do
  if level.state.dirty then
    level.algorithm.write(level.key, level.state, level.n)
    level.state.dirty = false
  end
end
return reply
