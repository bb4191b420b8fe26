-- What the fixed window and the sliding counter have in common: counts by window, windows aligned to the epoch.
-- State: index, current, previous, window. A clock that goes back counts as the start of the latest window seen.

-- floor(a * b / m) and whether anything is left, for products beyond 2^53: a long division, ten bits of `a` at a time.
local function divide_product(a, b, m)
  if a * b <= 9007199254740992 then
    local quotient = math.floor(a * b / m)
    return quotient, quotient * m < a * b
  end
  local quotient, rest = 0, 0
  for shift = 30, 0, -10 do
    local digit = math.floor(a / 2 ^ shift) % 1024
    rest = rest * 1024 + digit * b
    quotient = quotient * 1024 + math.floor(rest / m)
    rest = rest % m
  end
  return quotient, rest > 0
end

local function windows(weigh_previous)
  local w = {}

  -- `current` plus what the previous window still weighs, begun tokens counted whole.
  local function used(s, n)
    if not weigh_previous or s.previous == 0 then return s.current end
    local weight, more = divide_product(s.previous, s.reach, n.window)
    return s.current + weight + (more and 1 or 0)
  end

  local function look(s, window)
    local index = math.max(math.floor(now / window), s.index)
    if index == s.index + 1 then
      s.previous, s.current = s.current, 0
    elseif index > s.index then
      s.previous, s.current = 0, 0
    end
    s.index = index
    s.frozen = math.max(0, index * window - now)
    s.reach = window - math.max(0, now - index * window)
  end

  function w.numbers(a, b) return { limit = a, window = b } end

  function w.read(key, n)
    local s = { index = 0, current = 0, previous = 0 }
    local raw = redis.call('GET', key)
    if raw then
      local window
      s.index, s.current, s.previous, window = struct.unpack('<dddd', raw)
      if window ~= n.window then
        look(s, window)
        local spent = math.min(used(s, { window = window }), n.limit)
        s = { index = math.floor((now + s.frozen) / n.window), current = spent, previous = 0, dirty = true }
      end
    end
    look(s, n.window)
    return s
  end

  function w.write(key, s, n)
    local left = s.frozen + s.reach + (weigh_previous and n.window or 0)
    local raw = struct.pack('<dddd', s.index, s.current, s.previous, n.window)
    redis.call('SET', key, raw, 'PX', math.ceil(left / 1000) + 1)
  end

  local function retry_after(s, n, cost)
    local room = n.limit - cost
    if room < 0 then return -1 end
    if not weigh_previous then return s.frozen + s.reach end
    if room >= s.current then
      return s.frozen + s.reach - divide_product(room - s.current, n.window, math.max(1, s.previous))
    end
    return s.frozen + s.reach + n.window - divide_product(room, n.window, s.current)
  end

  function w.decide(s, n, cost)
    local left = math.max(0, n.limit - used(s, n))
    local this_window = s.frozen + s.reach
    local whole = this_window + (weigh_previous and n.window or 0)
    if cost <= left then return true, left - cost, whole, 0, 0 end
    local reset = 0
    if s.current > 0 then reset = whole elseif weigh_previous and s.previous > 0 then reset = this_window end
    return false, left, reset, retry_after(s, n, cost), 0
  end

  function w.take(s, n, cost)
    s.current = s.current + cost
    return now + s.frozen, 0, 0, 0
  end

  function w.give_back(s, n, cost, at)
    local age = s.index - math.floor(at / n.window)
    if age == 0 then
      s.current, s.dirty = math.max(0, s.current - cost), true
    elseif age == 1 and weigh_previous then
      s.previous, s.dirty = math.max(0, s.previous - cost), true
    end
  end

  -- A lease is taken from its window and dies with it.
  function w.settle(s, n, lease)
    local unspent = lease.held - lease.spent
    if lease.held == 0 then return false end
    if lease.keep and math.floor(lease.at / n.window) == s.index then return true end
    if unspent > 0 then w.give_back(s, n, unspent, lease.at) end
    return false
  end

  function w.grant(s, n, lease, amount)
    s.current = s.current + amount
    return s.frozen + s.reach
  end

  return w
end
