-- What token bucket, GCRA and leaky bucket have in common: a key owes what it has taken, time pays it back. State: at,
-- owed (there), run, returned, full, token, pay, how many others; at, owed, full, token, pay of each of those; then id,
-- amount, deadline of each open lease. What is owed at any moment x is owed + pay * (at - x), but not below zero nor
-- below what leases still hold. The others are what is owed under other numbers that were in use before: if some
-- processes ask with larger ones and some with smaller ones, as in a roll-out, what the smaller ones cut off must not
-- be there again for the larger ones. Units as in the Rust crate: a token is `token` of them, a microsecond pays `pay`,
-- an empty bucket owes `full`.

local MOST_OTHERS = 3

local function bucket(save_as_arrival_time, is_shaper)
  local function held(s)
    local sum = 0
    if s.leases then
      for _, lease in ipairs(s.leases) do sum = sum + lease.amount end
    end
    return sum
  end

  -- What is owed at least: all that leases hold, but no more than there is (they may be from larger numbers).
  local function floor_of(held_tokens, token, full) return math.min(full, held_tokens * token) end

  local function open_leases(raw, start)
    local leases = {}
    for position = start, #raw, 24 do
      local id, amount, deadline = struct.unpack('<ddd', raw, position)
      leases[#leases + 1] = { id = id, amount = amount, deadline = deadline }
    end
    table.sort(leases, function(x, y) return x.deadline < y.deadline end)
    return leases
  end

  -- While leases are open the bucket refills only up to what they leave, each up to its own end.
  local function owed_beside_leases(s, at, owed, full, token, pay)
    local function advance_to(moment)
      owed = owed + pay * (at - moment)
      local least = floor_of(held(s), token, full)
      if owed < least then
        -- Like a full bucket it has let some refill go to waste: receipts from before are void.
        owed, s.run, s.dirty = least, -now, true
      end
      at = moment
    end
    while s.leases[1] and s.leases[1].deadline <= now do
      advance_to(s.leases[1].deadline)
      table.remove(s.leases, 1)
      s.dirty = true
    end
    advance_to(now)
    return owed
  end

  -- The same for numbers that are not asked with now: leases are left as they are.
  local function owed_under(o, leases)
    local at, owed, open = o.at, o.owed, held({ leases = leases })
    for _, lease in ipairs(leases or {}) do
      if lease.deadline > now then break end
      owed = math.max(owed + o.pay * (at - lease.deadline), floor_of(open, o.token, o.full))
      at, open = lease.deadline, open - lease.amount
    end
    return math.max(0, owed + o.pay * (at - now), floor_of(open, o.token, o.full))
  end

  -- What is owed under other numbers, by now; nothing need be kept of those that owe nothing.
  local function read_others(raw, count, leases)
    local others = {}
    for index = 0, count - 1 do
      local o = {}
      o.at, o.owed, o.full, o.token, o.pay = struct.unpack('<ddddd', raw, 65 + 40 * index)
      o.owed = owed_under(o, leases)
      if o.owed > 0 then others[#others + 1] = o end
    end
    return others
  end

  -- The same count of tokens under other numbers, fractions kept (rounded up), at most all.
  local function convert(owed, full, token, n)
    owed = math.min(owed, full)
    local whole = floor(owed / token)
    local part = owed - whole * token
    while part * n.token > 9007199254740992 do
      part, token = ceil(part / 2), floor(token / 2)
    end
    part = math.min(n.token, ceil(part * n.token / token))
    return math.min(n.full, whole * n.token + part)
  end

  local function numbers(full, token, pay) return { full = full, token = token, pay = pay } end

  -- Whether a receipt issued under `then_n` is still good.
  local function is_same(n, then_n) return n.full == then_n.full and n.token == then_n.token and n.pay == then_n.pay end

  -- From the numbers of `before` to `n`: to what is owed under them already, or else to the same count of tokens.
  local function turn_to(s, before, n)
    local owed, others = convert(s.owed, before.full, before.token, n), {}
    if s.owed > 0 then
      before.owed = s.owed
      others[1] = before
    end
    for _, o in ipairs(s.others or {}) do
      if is_same(o, n) then
        owed = math.min(n.full, o.owed)
      elseif #others < MOST_OTHERS then
        others[#others + 1] = o
      end
    end
    s.owed, s.others = owed, others
    s.run, s.dirty, s.arrival = -now, true, -1 -- receipts from before are void
  end

  -- The state at this moment. Without `n`, under the numbers it was kept under, which are returned with it.
  local function read(key, n)
    local raw = redis.call('GET', key)
    if not raw then return { owed = 0, run = 0, returned = 0, arrival = 0, part = 0, dirty = false }, n end
    local at, owed, run, returned, full, token, pay, count = struct.unpack('<dddddddd', raw)
    n = n or numbers(full, token, pay)
    local left = owed + pay * (at - now)
    local s = { owed = left, run = run, returned = returned, arrival = at, part = owed, dirty = false }
    local start = 65 + 40 * count
    if #raw >= start then s.leases = open_leases(raw, start) end
    if count > 0 then s.others = read_others(raw, count, s.leases) end
    if s.leases then
      s.owed = owed_beside_leases(s, at, owed, full, token, pay)
    elseif left < 0 then
      s.owed = 0
    end
    if full ~= n.full or token ~= n.token or pay ~= n.pay then turn_to(s, numbers(full, token, pay), n) end
    return s, n
  end

  -- When no more than `room` of `owed` is left, if nobody else comes and every lease is held to its end.
  local function time_to_owe(s, n, owed, room)
    local at, open = now, held(s)
    if s.leases then
      for _, lease in ipairs(s.leases) do
        local paid = at + math.max(0, ceil((owed - room) / n.pay))
        local least = floor_of(open, n.token, n.full)
        if least <= room and paid < lease.deadline then return paid - now end
        owed = math.max(owed - n.pay * (lease.deadline - at), least)
        at, open = lease.deadline, open - lease.amount
      end
    end
    return at + math.max(0, ceil((owed - room) / n.pay)) - now
  end

  local function write(key, s, n)
    local at, owed = now, s.owed
    local left = time_to_owe(s, n, owed, 0)
    if save_as_arrival_time then
      local whole = floor(owed / n.pay)
      at, owed = at + whole, owed - whole * n.pay
    end
    local others = s.others or {}
    local raw = struct.pack('<dddddddd', at, owed, s.run, s.returned, n.full, n.token, n.pay, #others)
    if s.leases or #others > 0 then
      local parts = { raw }
      for _, o in ipairs(others) do
        left = math.max(left, time_to_owe(s, o, o.owed, 0))
        parts[#parts + 1] = struct.pack('<ddddd', now, o.owed, o.full, o.token, o.pay)
      end
      for _, lease in ipairs(s.leases or {}) do
        if lease.amount > 0 then parts[#parts + 1] = struct.pack('<ddd', lease.id, lease.amount, lease.deadline) end
      end
      raw = table.concat(parts)
    end
    redis.call('SET', key, raw, 'PX', ceil(left / 1000) + 1)
  end

  local function decide(s, n, cost)
    local price = cost * n.token
    if price <= n.full and s.owed + price <= n.full then
      local after = s.owed + price
      local wait = is_shaper and ceil(s.owed / n.pay) or 0
      return true, floor((n.full - after) / n.token), time_to_owe(s, n, after, 0), 0, wait
    end
    local retry = -1
    if price <= n.full then retry = time_to_owe(s, n, s.owed, n.full - price) end
    return false, floor(math.max(0, n.full - s.owed) / n.token), time_to_owe(s, n, s.owed, 0), retry, 0
  end

  local function take(s, n, cost)
    if s.owed == 0 then s.run = now end
    s.owed = s.owed + cost * n.token
    for _, o in ipairs(s.others or {}) do o.owed = math.min(o.full, o.owed + cost * o.token) end
    return now, s.owed, s.returned, s.run
  end

  -- What the key owed at its lowest since is all that can be returned: see `returnable` in the Rust crate.
  local function give_back(s, n, cost, at, owed, returned, run)
    if run ~= s.run then return end
    if is_shaper then
      local whole = floor(owed / n.pay)
      if s.returned ~= returned or s.arrival ~= at + whole or s.part ~= owed - whole * n.pay then return end
    end
    local lowest = owed - n.pay * math.max(0, now - at) - n.token * (s.returned - returned)
    local back = math.min(cost * n.token, lowest)
    if back <= 0 then return end
    s.owed = math.max(floor_of(held(s), n.token, n.full), s.owed - back)
    s.returned, s.dirty = s.returned + ceil(back / n.token), true
  end

  local function settle(s, n, lease)
    if lease.held == 0 then return false end
    for i, open in ipairs(s.leases or {}) do
      if open.id == lease.id then
        open.amount = math.max(0, open.amount - lease.spent)
        if lease.keep then return true end
        table.remove(s.leases, i)
        s.owed = math.max(floor_of(held(s), n.token, n.full), s.owed - open.amount * n.token)
        s.returned = s.returned + open.amount
        return false
      end
    end
    return false
  end

  local function grant(s, n, lease, amount)
    take(s, n, amount)
    local open
    s.leases = s.leases or {}
    for _, other in ipairs(s.leases) do
      if other.id == lease.id then open = other end
    end
    if not open then
      open = { amount = 0 }
      table.insert(s.leases, open)
    end
    open.id, open.amount, open.deadline = lease.new_id, open.amount + amount, now + lease.ttl
    table.sort(s.leases, function(x, y) return x.deadline < y.deadline end)
    return lease.ttl
  end

  return {
    is_same = is_same, numbers = numbers, read = read, write = write, decide = decide, take = take,
    give_back = give_back, settle = settle, grant = grant,
  }
end
