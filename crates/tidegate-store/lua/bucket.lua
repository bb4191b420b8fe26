-- What token bucket, GCRA and leaky bucket have in common: a key owes what it has taken, time pays it back.
-- State: at, owed (there), run, returned, full, token, pay; then id, amount, deadline of each open lease.
-- What is owed at any moment x is owed + pay * (at - x), but not below zero nor below what leases still hold.
-- Units as in the Rust crate: a token is `token` of them, a microsecond pays `pay`, an empty bucket owes `full`.

local function bucket(save_as_arrival_time, is_shaper)
  local b = {}

  function b.numbers(full, token, pay) return { full = full, token = token, pay = pay } end

  local function owed_at(s, x, pay) return math.max(0, s.owed + pay * (s.at - x)) end

  local function held(s)
    local sum = 0
    for _, lease in ipairs(s.leases) do sum = sum + lease.amount end
    return sum
  end

  -- While leases are open the bucket refills only up to what they leave, each up to its own end.
  local function advance(s, n)
    if #s.leases > 0 then
      table.sort(s.leases, function(x, y) return x.deadline < y.deadline end)
      while s.leases[1] and s.leases[1].deadline <= now do
        local ended = s.leases[1].deadline
        s.owed = math.max(owed_at(s, ended, n.pay), held(s) * n.token)
        s.at = ended
        table.remove(s.leases, 1)
        s.dirty = true
      end
    end
    s.owed = math.max(owed_at(s, now, n.pay), held(s) * n.token)
    s.at = now
  end

  -- The same count of tokens under other numbers, fractions kept (rounded up), at most all.
  local function convert(owed, before, n)
    owed = math.min(owed, before.full)
    local whole = math.floor(owed / before.token)
    local part, token = owed - whole * before.token, before.token
    while part * n.token > 9007199254740992 do
      part, token = math.ceil(part / 2), math.floor(token / 2)
    end
    part = math.min(n.token, math.ceil(part * n.token / token))
    return math.min(n.full, whole * n.token + part)
  end

  function b.read(key, n)
    local raw = redis.call('GET', key)
    if not raw then return { at = now, owed = 0, run = 0, returned = 0, leases = {} } end
    local s, before = { leases = {} }, {}
    s.at, s.owed, s.run, s.returned, before.full, before.token, before.pay = struct.unpack('<ddddddd', raw)
    s.arrival, s.part = s.at, s.owed
    for position = 57, #raw, 24 do
      local id, amount, deadline = struct.unpack('<ddd', raw, position)
      table.insert(s.leases, { id = id, amount = amount, deadline = deadline })
    end
    advance(s, before)
    if before.full ~= n.full or before.token ~= n.token or before.pay ~= n.pay then
      s.owed = convert(s.owed, before, n)
      s.run, s.dirty, s.arrival = -now, true, nil -- receipts from before are void
    end
    return s
  end

  function b.write(key, s, n)
    local at, owed = s.at, s.owed
    if save_as_arrival_time then
      local whole = math.floor(owed / n.pay)
      at, owed = at + whole, owed - whole * n.pay
    end
    local raw = { struct.pack('<ddddddd', at, owed, s.run, s.returned, n.full, n.token, n.pay) }
    local left = math.ceil(s.owed / n.pay)
    for _, lease in ipairs(s.leases) do
      table.insert(raw, struct.pack('<ddd', lease.id, lease.amount, lease.deadline))
      left = math.max(left, lease.deadline - now + math.ceil(lease.amount * n.token / n.pay))
    end
    redis.call('SET', key, table.concat(raw), 'PX', math.ceil(left / 1000) + 1)
  end

  -- When no more than `room` is owed, if nobody else comes and every lease is held to its end.
  local function time_to_owe(s, n, room)
    local at, owed, open = now, s.owed, held(s)
    for _, lease in ipairs(s.leases) do
      local paid = at + math.max(0, math.ceil((owed - room) / n.pay))
      if open * n.token <= room and paid < lease.deadline then return paid - now end
      owed = math.max(owed - n.pay * (lease.deadline - at), open * n.token)
      at, open = lease.deadline, open - lease.amount
    end
    return at + math.max(0, math.ceil((owed - room) / n.pay)) - now
  end

  function b.decide(s, n, cost)
    local price = cost * n.token
    if price <= n.full and s.owed + price <= n.full then
      local after = s.owed + price
      local wait = is_shaper and math.ceil(s.owed / n.pay) or 0
      return true, math.floor((n.full - after) / n.token), math.ceil(after / n.pay), 0, wait
    end
    local retry = -1
    if price <= n.full then retry = time_to_owe(s, n, n.full - price) end
    return false, math.floor(math.max(0, n.full - s.owed) / n.token), time_to_owe(s, n, 0), retry, 0
  end

  function b.take(s, n, cost)
    if s.owed == 0 then s.run = now end
    s.owed = s.owed + cost * n.token
    return now, s.owed, s.returned, s.run
  end

  -- What the key owed at its lowest since is all that can be returned: see `returnable` in the Rust crate.
  function b.give_back(s, n, cost, at, owed, returned, run)
    if run ~= s.run then return end
    if is_shaper then
      local whole = math.floor(owed / n.pay)
      if s.returned ~= returned or s.arrival ~= at + whole or s.part ~= owed - whole * n.pay then return end
    end
    local lowest = owed - n.pay * math.max(0, now - at) - n.token * (s.returned - returned)
    local back = math.min(cost * n.token, lowest)
    if back <= 0 then return end
    s.owed = math.max(held(s) * n.token, s.owed - back)
    s.returned, s.dirty = s.returned + math.ceil(back / n.token), true
  end

  function b.settle(s, n, lease)
    for i, open in ipairs(s.leases) do
      if open.id == lease.id then
        open.amount = math.max(0, open.amount - lease.spent)
        if lease.keep then return true end
        table.remove(s.leases, i)
        s.owed = math.max(held(s) * n.token, s.owed - open.amount * n.token)
        return false
      end
    end
    return false
  end

  function b.grant(s, n, lease, amount)
    b.take(s, n, amount)
    local open
    for _, other in ipairs(s.leases) do
      if other.id == lease.id then open = other end
    end
    if not open then
      open = { amount = 0 }
      table.insert(s.leases, open)
    end
    open.id, open.amount, open.deadline = lease.new_id, open.amount + amount, now + lease.ttl
    return lease.ttl
  end

  return b
end
