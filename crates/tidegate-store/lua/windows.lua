-- What the fixed window and the sliding counter have in common: counts by window, windows aligned to the epoch.
-- State: index, current, previous, window. A clock that goes back counts as the start of the latest window seen.

-- floor(a * b / m) and whether anything is left, for products beyond 2^53: a long division, ten bits of `a` at a time.
local function divide_product(a, b, m)
  if a * b <= 9007199254740992 then
    local quotient = floor(a * b / m)
    return quotient, quotient * m < a * b
  end
  local quotient, rest = 0, 0
  for shift = 30, 0, -10 do
    local digit = floor(a / 2 ^ shift) % 1024
    rest = rest * 1024 + digit * b
    quotient = quotient * 1024 + floor(rest / m)
    rest = rest % m
  end
  return quotient, rest > 0
end

local function windows(weigh_previous)
  -- `current` plus what the previous window still weighs, begun tokens counted whole.
  local function used(s, n)
    if not weigh_previous or s.previous == 0 then return s.current end
    local weight, more = divide_product(s.previous, s.reach, n.window)
    return s.current + weight + (more and 1 or 0)
  end

  -- The state as it stands in the window of now.
  local function look(index, current, previous, window)
    local this = floor(now / window)
    if this == index + 1 then
      index, previous, current = this, current, 0
    elseif this > index then
      index, previous, current = this, 0, 0
    end
    local ahead = index * window - now -- above zero if the clock went back
    local frozen, reach = 0, window + ahead
    if ahead > 0 then frozen, reach = ahead, window end
    return { index = index, current = current, previous = previous, frozen = frozen, reach = reach, dirty = false }
  end

  local function numbers(a, b) return { limit = a, window = b } end

  -- The state at this moment. Without `n`, under the numbers it was kept under, which are returned with it.
  local function read(key, n)
    local raw = redis.call('GET', key)
    if not raw then return n and look(0, 0, 0, n.window), n end
    local index, current, previous, window = struct.unpack('<dddd', raw)
    n = n or { window = window }
    if window == n.window then return look(index, current, previous, window), n end
    local before = look(index, current, previous, window)
    local spent = math.min(used(before, { window = window }), n.limit)
    local s = look(floor((now + before.frozen) / n.window), spent, 0, n.window)
    s.dirty = true
    return s, n
  end

  local function write(key, s, n)
    local left = s.frozen + s.reach + (weigh_previous and n.window or 0)
    local raw = struct.pack('<dddd', s.index, s.current, s.previous, n.window)
    redis.call('SET', key, raw, 'PX', ceil(left / 1000) + 1)
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

  local function decide(s, n, cost)
    local left = math.max(0, n.limit - used(s, n))
    local this_window = s.frozen + s.reach
    local whole = this_window + (weigh_previous and n.window or 0)
    if cost <= left then return true, left - cost, whole, 0, 0 end
    local reset = 0
    if s.current > 0 then reset = whole elseif weigh_previous and s.previous > 0 then reset = this_window end
    return false, left, reset, retry_after(s, n, cost), 0
  end

  local function take(s, n, cost)
    s.current = s.current + cost
    return now + s.frozen, 0, 0, 0
  end

  local function give_back(s, n, cost, at)
    local age = s.index - floor(at / n.window)
    if age == 0 then
      s.current, s.dirty = math.max(0, s.current - cost), true
    elseif age == 1 and weigh_previous then
      s.previous, s.dirty = math.max(0, s.previous - cost), true
    end
  end

  -- A lease is taken from its window and dies with it.
  local function settle(s, n, lease)
    if lease.held == 0 then return false end
    -- What it means to keep it may still have spent: it is not returned, even if its window is over.
    if lease.keep then return floor(lease.at / n.window) == s.index end
    give_back(s, n, lease.held - lease.spent, lease.at)
    return false
  end

  local function grant(s, n, lease, amount)
    s.current = s.current + amount
    return s.frozen + s.reach
  end

  -- Whether a receipt issued under `then_n` is still good.
  local function is_same(n, then_n) return n.window == then_n.window end

  return {
    is_same = is_same, numbers = numbers, read = read, write = write, decide = decide, take = take,
    give_back = give_back, settle = settle, grant = grant,
  }
end
