-- A lock and its holders. It stands behind lib.lua.

-- MANY is how many dead claims one call removes from the front of a queue; stopped is set if
-- there may be more, or more dead grants of a shared lock. A fleet that died while it waited
-- must not block the server for seconds. The caller goes on (Store.walk), and so does every
-- call that comes between.
local MANY = 256
local stopped = false

-- SOME is how many grants of a shared lock one call checks, if there are more.
local SOME = 64

-- drawn has the tickets of claims whose number is their ticket.
local drawn = {}

-- A lock k is
--   name, L, G
--   form     the letter of its holder, which is then the first pair of L; nil if there is none
--   ticket   of that pair
--   grants   unless the form is S
--   shared   count, sum of weights, largest weight, cursor of clean, when its round began, if the
--            form is S
--   top      no number up to this may be granted any more
--   changed  save has to write the holder

local function none_shared() return { count = 0, sum = 0, largest = 0, cursor = '0', began = 0 } end

local function sentinel(k)
  local s = k.shared
  return 'S' .. cmsgpack.pack({ s.count, s.sum, s.largest, num(k.top), s.cursor, s.began })
end

-- fields has the fields of grants that were read from G: the id of the claim, and the number
-- behind it once the grant is only kept, because the claim may come again.
local fields = {}

-- put writes a grant of a shared lock. A field that is replaced is removed last: an error between the two
-- must not end what MinHold keeps.
local function put(k, g)
  local old = fields[g] or id_of(g)
  local new = g[SID] == '' and #old == 22 and old .. num(g[COUNTER]) or old
  fields[g] = new
  call('HSET', k.G, new, cmsgpack.pack(g))
  if new ~= old then call('HDEL', k.G, old) end
end

-- clean drops the grants of a shared lock that do not stand: all of them, or some from
-- where the last call stopped, unless a round over all of them began since a time. It returns
-- whether a round is over, and whether it found a grant that stands.
local function clean(k, since)
  local s, standing = k.shared, false
  local few = s.count <= SOME
  if not few then
    if s.cursor == '0' and s.began >= since and s.began <= now then return true, false end
    -- A round that no call went on with says nothing about now.
    if s.cursor ~= '0' and now - s.began > 10000 + 10 * s.count then s.cursor = '0' end
    if s.cursor == '0' then s.began = now end
  end
  local at = few and '0' or s.cursor
  repeat
    local part = call('HSCAN', k.G, at, 'COUNT', SOME)
    at = part[1]
    for i = 1, #part[2], 2 do
      local g = cmsgpack.unpack(part[2][i + 1])
      fields[g] = part[2][i]
      local weight = g[WEIGHT]
      local up, changed = upheld(g)
      if not up then
        if call('HDEL', k.G, part[2][i]) == 1 then
          s.count, s.sum, k.changed = s.count - 1, s.sum - weight, true
        end
      else
        standing = true
        if changed then put(k, g) end
      end
    end
  until at == '0' or not few
  if not few then s.cursor, k.changed = at, true end
  -- An operator may have deleted the hash. No call would find a grant then, or the lock free.
  if at == '0' and s.count > 0 and not call('HRANDFIELD', k.G) then s.count, s.sum, k.changed = 0, 0, true end
  if s.count == 0 and k.form == 'S' then
    call('LPOP', k.L, 2)
    k.form = nil
  end
  return at == '0', standing
end

-- read unpacks grants of a shared lock, from fields and their values.
local function read(flat)
  local list = {}
  for i = 1, #flat, 2 do
    local g = cmsgpack.unpack(flat[i + 1])
    fields[g], list[#list + 1] = flat[i], g
  end
  return list
end

-- some returns grants of a shared lock from a cursor on, and the next cursor, '0' at the end. To read all of thousands
-- would block the server.
local function some(k, at)
  local part = call('HSCAN', k.G, at, 'COUNT', SOME)
  return read(part[2]), part[1]
end

-- all returns every grant of a lock, in the order of their numbers if it is shared.
local function all(k)
  if k.form ~= 'S' then return k.grants end
  local list = read(call('HGETALL', k.G))
  table.sort(list, function(a, b)
    if a[COUNTER] ~= b[COUNTER] then return a[COUNTER] < b[COUNTER] end
    return a[SEQ] < b[SEQ]
  end)
  return list
end

-- sample returns all grants, or some if there are many.
local function sample(k)
  if k.form ~= 'S' or k.shared.count <= SOME then return all(k) end
  local list = {}
  for i, field in ipairs(call('HRANDFIELD', k.G, 4)) do list[i] = cmsgpack.unpack(call('HGET', k.G, field)) end
  return list
end

local function taken(k) return k.form == 'S' and k.shared.count > 0 or #k.grants > 0 end

-- settle finds the holder, and drops leftovers and what does not stand before it.
local function settle(k)
  local dead = 0
  while true do
    local two = call('LRANGE', k.L, 0, 1)
    local t, raw = two[1], two[2]
    if not t then return end
    if not is_ticket(t) or not raw or is_ticket(raw) then
      call('LPOP', k.L) -- a leftover
    else
      local kind = sub(raw, 1, 1)
      if kind == 'Q' or kind == 'C' then return end
      k.ticket = tonumber(t)
      if kind == 'A' then
        for _, g in ipairs(cmsgpack.unpack(sub(raw, 2))) do
          local up, changed = upheld(g)
          if up then k.grants[#k.grants + 1] = g end
          if not up or changed then k.changed = true end
        end
        if #k.grants > 0 then
          k.form = kind
          return
        end
        k.top, k.changed = math.max(k.top, k.ticket), false
      elseif kind == 'S' then
        local s = cmsgpack.unpack(sub(raw, 2))
        k.shared = { count = s[1], sum = s[2], largest = s[3], cursor = s[5], began = s[6] }
        k.top = math.max(k.top, tonumber(s[4]))
        if k.shared.count > 0 and k.shared.count <= SOME then clean(k) end
        if k.shared.count > 0 then
          k.form = kind
          return
        end
        k.changed = false
      else -- X or G
        local e = claim_of(raw, k.name)
        if lives(e) and not marked(session(e[SID]), e[SID], e[SEQ]) then
          k.form, k.raw, k.grants = kind, raw, { e }
          e[COUNTER], drawn[e] = k.ticket, k.ticket
          return
        end
      end
      call('LPOP', k.L, 2)
      dead = dead + 1
      if dead == MANY then
        stopped = true
        return
      end
    end
  end
end

local function exclusive(grants)
  for _, g in ipairs(grants) do
    if g[MODE] == 0 then return true end
  end
  return false
end

local function reenters(k, e)
  if e[REENTRY] == '' or e[MODE] ~= 0 or not exclusive(k.grants) then return false end
  for _, g in ipairs(k.grants) do
    if g[SID] == '' or g[REENTRY] ~= e[REENTRY] then return false end
  end
  return true
end

-- fits reports whether a claim can be granted beside the grants.
local function fits(k, e)
  if e[MODE] == 0 then return not taken(k) or reenters(k, e) end
  if exclusive(k.grants) then return false end
  if e[LIMIT] == 0 then return true end
  local limit = tonumber(call('HGET', H, 'n' .. k.name) or e[LIMIT])
  local used, s = math.min(e[WEIGHT], limit), k.form == 'S' and k.shared
  if s and s.largest <= limit then return used + s.sum <= limit end
  -- A grant that is heavier than the limit, which was lowered, counts as the limit. Each counts as 1 at least.
  if s and used + s.count > limit then return false end
  local largest = 0
  for _, g in ipairs(all(k)) do
    used, largest = used + math.min(g[WEIGHT], limit), math.max(largest, g[WEIGHT])
  end
  if s then s.largest, k.changed = largest, true end -- the next call need not read them if the heavy one has gone
  return used <= limit
end

-- room reports whether a claim fits once the grants that do not stand are dropped. If there are
-- many, a call checks some. An exclusive claim waits for the first that stands; the caller goes on
-- until one is found. For a claim with a limit it goes on until all were checked, but not again
-- at once: a limit that is always reached would cost more than all else.
local function room(k, e)
  if fits(k, e) then return true end
  if k.form ~= 'S' or k.shared.count <= SOME then return false end
  local over, standing = clean(k, e[MODE] == 0 and math.huge or now - k.shared.count / 4)
  if fits(k, e) then return true end
  if e[MODE] == 0 then over = standing end
  if not over then stopped = true end
  return false
end

-- own returns the counter of the slot of a name, if it is there.
local function own(name)
  local c = this.voted and call('HGET', H, slot(name))
  return c and tonumber(c)
end

-- highest is at least every number of a name so far.
local function highest(name) return math.max(issued(), own(name) or 0) end

-- vote begins the counters of slots. Tickets that are ready could be below them.
local function vote()
  if this.voted then return end
  this.voted = true
  call('HSET', H, 'v', num(issued()))
  write_marker(this)
  call('LTRIM', T, 1, 0)
end

-- number returns the number of a new grant to a claim with a ticket: the ticket, if no
-- number of the lock may be higher.
local function number(k, ticket)
  local mine = own(k.name)
  local least = math.max(k.top, mine or 0)
  if ticket > least then return ticket end
  local n = mine and 0 or draw()
  if n > least then return n end
  vote()
  call('HSET', H, slot(k.name), num(least + 1))
  return least + 1
end

-- raise makes the next number of a lock at least floor. Claims in the queue that plain
-- commands pushed must not hold the lock with their tickets then, as soon as they are first.
local function raise(k, floor)
  local mine = own(k.name)
  if mine and mine >= floor - 1 then return end
  local from = k.form and 2 or 0
  local waiting = call('LRANGE', k.L, from, -1)
  if not mine then
    local next = issued() + 1
    if waiting[1] and is_ticket(waiting[1]) then next = tonumber(waiting[1]) end
    if next >= floor then return end
  end
  vote()
  call('HSET', H, slot(k.name), num(floor - 1))
  for i, raw in ipairs(waiting) do
    if byte(raw) == $X then call('LSET', k.L, from + i - 1, 'Q' .. sub(raw, 2)) end
  end
end

local function hold(e, counter)
  e[COUNTER], e[SINCE], e[INC] = counter, now, inc
  e[MINEND] = e[MIN] > 0 and after(e[MIN]) or 0
  e[MAXEND] = e[MAX] > 0 and after(e[MAX]) or 0
end

-- add puts a grant beside the others.
local function add(k, e)
  k.changed = true
  if k.form ~= 'S' then
    k.grants[#k.grants + 1] = e
    return
  end
  local s = k.shared
  s.count, s.sum, s.largest = s.count + 1, s.sum + e[WEIGHT], math.max(s.largest, e[WEIGHT])
  k.top = math.max(k.top, e[COUNTER])
  put(k, e)
end

-- grant grants to a claim with a ticket, nil if it has none yet.
local function grant(k, e, ticket)
  if reenters(k, e) then
    hold(e, k.grants[1][COUNTER])
  else
    ticket = ticket or draw()
    hold(e, number(k, ticket))
    if e[COUNTER] == ticket then drawn[e] = ticket end
  end
  add(k, e)
end

-- unhead removes the first pair, which is the holder.
local function unhead(k)
  if not k.form then return end
  call('LPOP', k.L, 2)
  k.top = math.max(k.top, k.ticket)
  k.form = nil
end

-- holder writes the first pair.
local function holder(k, form, ticket, raw)
  if k.form then
    call('LSET', k.L, 0, num(ticket))
    call('LSET', k.L, 1, raw)
  else
    call('LPUSH', k.L, raw, num(ticket))
  end
  k.form, k.ticket, k.raw, k.changed = form, ticket, raw, false
end

-- removable reports whether plain commands may remove the holder: its number is its ticket, and
-- there is nothing else to remove with it, as there is in a grace.
local function removable(k)
  local e = k.grants[1]
  return #k.grants == 1 and plain(e) and drawn[e] == e[COUNTER] and grace() == 0
end

-- save writes the holder. While claims wait behind no holder, the highest number stays.
local function save(k)
  if k.form == 'S' then
    if k.changed then call('LSET', k.L, 1, sentinel(k)) end
    k.changed = false
  elseif #k.grants == 0 then
    unhead(k)
    if grace() == 0 and not stopped then
      -- HDEL is a write even if there is nothing to remove, and after a write of a script a server
      -- whose memory is full rejects nothing.
      if call('HEXISTS', H, 'r' .. k.name) == 1 then call('HDEL', H, 'r' .. k.name) end
    elseif k.top > 0 and call('LLEN', k.L) > 0 then
      k.shared = none_shared()
      holder(k, 'S', 0, sentinel(k))
    elseif grace() > 0 and call('HEXISTS', H, 'r' .. k.name) == 1 then
      look_again(k.name, grace_end)
    end
  elseif not k.changed then
    return
  elseif exclusive(k.grants) then
    local e = k.grants[1]
    if removable(k) then
      holder(k, 'G', e[COUNTER], shorten(e, 'G'))
    else
      holder(k, 'A', e[COUNTER], 'A' .. cmsgpack.pack(k.grants))
    end
  else
    local grants = k.grants
    k.shared, k.grants = none_shared(), {}
    if k.form then k.top = math.max(k.top, k.ticket) end
    local form = k.form
    k.form = 'S'
    for _, g in ipairs(grants) do add(k, g) end
    k.form = form
    holder(k, 'S', 0, sentinel(k))
  end
end
