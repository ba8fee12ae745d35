-- The queue of a lock, and what is granted from it. It stands behind lock.lua.

-- untick removes a ticket of the queue, by value. The number of a holder that was voted about may
-- be the same as a ticket in the queue; the holder is first, and the queue has each but once.
local function untick(k, t) call('LREM', k.L, k.form and num(k.ticket) == t and -1 or 1, t) end

-- unqueue removes a pair of the queue, by value.
local function unqueue(k, t, raw)
  call('LREM', k.L, 1, raw)
  if t then untick(k, t) end
end

-- queue iterates over the queue and returns where a claim is, its ticket, nil if there is
-- none, and the claim. While it iterates, the list must not be changed other than by LSET. size is how many
-- elements are read at once, if not 100.
local function queue(k, size)
  local from, part, at, t = k.form and 2 or 0, {}, 0, nil
  size = size or 100
  return function()
    while true do
      if at == #part then
        from, at = from + at, 0
        part = call('LRANGE', k.L, from, from + size - 1)
        if #part == 0 then return nil end
      end
      at = at + 1
      local raw = part[at]
      if is_ticket(raw) then
        t = raw
      else
        local ticket = t
        t = nil
        return from + at - 1, ticket, raw
      end
    end
  end
end

-- find returns the grant of a claim, and where it is among the grants.
local function find(k, sid, seq)
  if k.form == 'S' then
    local id = id_from(sid, seq)
    local raw = call('HGET', k.G, id)
    local g = raw and cmsgpack.unpack(raw)
    if not g or g[SID] ~= sid then return nil end
    fields[g] = id
    return g
  end
  for i, g in ipairs(k.grants) do
    if g[SID] == sid and g[SEQ] == seq then return g, i end
  end
end

-- FEW is how many claims at the front of a queue each call checks whether they re-enter, and MANY are checked when a
-- holder is granted the lock. One that is further back finds out with its next poll (attempt.lua). If each call
-- checked all of them, n claims would cost the square of n, and block the server.
local FEW = 16

-- join returns claims of the queue that re-enter, of so many at its front.
local function join(k, most)
  local joining, tried, reentry = {}, 0, k.grants[1][REENTRY]
  for _, t, raw in queue(k, math.min(100, 2 * most)) do
    -- A plain claim re-enters nothing.
    local e = t and byte(raw) == $C and string.find(raw, reentry, 1, true) and claim_of(raw, k.name)
    if e and reenters(k, e) and waits(e) then joining[#joining + 1] = { t, raw, e } end
    tried = tried + 1
    if tried == most then break end
  end
  return joining
end

-- pick grants from the front of the queue while the front fits, skipping the dead, then to claims
-- that re-enter. It returns the claims that were granted.
local function pick(k)
  local granted, dead, most = {}, 0, FEW
  if stopped or not granting() then return granted end
  while true do
    local at = k.form and 2 or 0
    local two = call('LRANGE', k.L, at, at + 1)
    local t, raw = two[1], two[2]
    if not t then return granted end
    if not is_ticket(t) or not raw or is_ticket(raw) then
      untick(k, t) -- a leftover
    else
      local e = claim_of(raw, k.name)
      if byte(raw) == $X and find(k, e[SID], e[SEQ]) then
        unqueue(k, t, raw) -- plain commands that came late have pushed it a second time
      elseif waits(e) then
        if not room(k, e) then break end
        unqueue(k, t, raw)
        grant(k, e, tonumber(t))
        granted[#granted + 1] = e
        most = MANY
        if k.form ~= 'S' then save(k) end
      elseif dead == MANY then
        stopped = true
        return granted
      else
        dead = dead + 1
        unqueue(k, t, raw)
      end
    end
  end
  if exclusive(k.grants) and k.grants[1][REENTRY] ~= '' then
    for _, j in ipairs(join(k, most)) do
      unqueue(k, j[1], j[2])
      grant(k, j[3], tonumber(j[1]))
      granted[#granted + 1] = j[3]
    end
  end
  return granted
end

-- promote grants from the queue, writes the holder, and only then notifies. An error between a notice and the
-- last write would leave a process that holds a lock which is free for all others.
local function promote(k)
  local granted = pick(k)
  save(k)
  for _, e in ipairs(granted) do
    push($channel .. e[SID], e[SEQ], e[COUNTER], removable(k) and struct.pack('>I6', e[SINCE]) or '')
  end
end

local function lock(name)
  return { name = name, L = H .. ':l:' .. name, G = H .. ':g:' .. name, grants = {}, top = 0, changed = false }
end

-- refresh drops what has ended, grants to the claims that fit then, and returns the lock.
local function refresh(name)
  local k = lock(name)
  settle(k)
  -- A claim that was pushed behind a holder with a higher number needs a higher one.
  if (k.form == 'X' or k.form == 'G') and k.ticket <= k.top then
    local e = k.grants[1]
    e[COUNTER], k.changed = number(k, k.ticket), true
  end
  promote(k)
  return k
end

-- rewrite notes that a grant was changed.
local function rewrite(k, g)
  if k.form == 'S' then put(k, g) else k.changed = true end
end

-- remove removes a grant.
local function remove(k, g, i)
  k.changed = true
  if k.form == 'S' then
    local s = k.shared
    if call('HDEL', k.G, fields[g] or id_of(g)) == 1 then s.count, s.sum = s.count - 1, s.sum - g[WEIGHT] end
    if s.count == 0 then unhead(k) end
    return
  end
  table.remove(k.grants, i)
  if #k.grants == 0 then unhead(k) end
end

-- seek returns where a claim is in the queue, its ticket and its element. value is the element
-- if the caller knows it, else ''.
local function seek(k, id, value)
  if value ~= '' then
    local at = call('LPOS', k.L, value)
    if at and at > 0 and not (k.form and at == 1) then
      local t = call('LINDEX', k.L, at - 1)
      return at, is_ticket(t) and t or nil, value
    end
  end
  local sid = sub(id, 1, 16)
  for at, t, raw in queue(k) do
    if string.find(raw, sid, 1, true) and id_in(raw) == id then return at, t, raw end
  end
end

-- place returns how many are before a claim in the queue.
local function place(k, at) return math.floor((at - 1) / 2) - (k.form and 1 or 0) end

-- downgrade gives an exclusive grant the shared terms of a claim (O6). It returns whether
-- it did.
local function downgrade(k, g, e)
  if g[MODE] ~= 0 or e[MODE] ~= 1 then return false end
  g[MODE], g[WEIGHT], g[LIMIT] = 1, e[WEIGHT], e[LIMIT]
  k.changed = true
  save(k)
  promote(k)
  return true
end

-- moved has the ends of sessions as keep-alives have moved them.
local moved = {}

local function ends_in(g)
  local till = 0
  local s = g[SID] ~= '' and session(g[SID])
  if s then
    moved[g[SID]] = moved[g[SID]] or tonumber(call('ZSCORE', Z, g[SID]) or '0')
    till = math.max(s.till, math.min(after(s.ttl), moved[g[SID]]))
  end
  if g[MINEND] > till then till = g[MINEND] end
  if g[MAXEND] ~= 0 and (g[SID] == '' or g[MAXEND] < till) then till = g[MAXEND] end
  return math.max(0, left(till))
end

-- shown is a grant as replies carry it.
local function shown(g)
  return { g[SID], num(g[SEQ]), num(g[COUNTER]), g[MODE], num(g[WEIGHT]), g[REENTRY], g[RECORD],
    num(math.max(0, now - g[SINCE])), num(ends_in(g)) }
end
