-- All limits of one request: every one is asked, then all are charged or none.
-- KEYS: each level's (a log has two). ARGV: now, commit, then algorithm, cost and three numbers of each level.
-- Reply: now, then for each level: admitted, remaining, reset, retry (-1: never), wait, and the receipt's at, owed, returned, run.
local commit = ARGV[2] == '1'
local levels, states, all = {}, {}, true
local key = 1
for arg = 3, #ARGV, 5 do
  local algorithm = algorithms[ARGV[arg]]
  local level = { algorithm = algorithm, cost = tonumber(ARGV[arg + 1]), key = KEYS[key] }
  level.n = algorithm.numbers(tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]), tonumber(ARGV[arg + 4]))
  -- The same account named twice pays the sum.
  level.state = states[level.key] or algorithm.read(level.key, level.n, KEYS[key + 1])
  states[level.key] = level.state
  local asked = (level.state.asked or 0) + level.cost
  level.state.asked = asked
  level.decision = { algorithm.decide(level.state, level.n, asked) }
  all = all and level.decision[1]
  levels[#levels + 1] = level
  key = key + (algorithm.keys or 1)
end

local reply = { now }
for _, level in ipairs(levels) do
  local admitted, remaining, reset, retry, wait = unpack(level.decision)
  local at, owed, returned, run = 0, 0, 0, 0
  if all and commit then
    at, owed, returned, run = level.algorithm.take(level.state, level.n, level.cost)
    level.state.dirty = true
  end
  for _, number in ipairs({ admitted and 1 or 0, remaining, reset, retry, wait, at, owed, returned, run }) do
    reply[#reply + 1] = number
  end
end
for _, level in ipairs(levels) do
  if level.state.dirty then
    level.algorithm.write(level.key, level.state, level.n)
    level.state.dirty = false
  end
end
return reply
