-- The queues of claims that wait, and how these are granted. This part comes after lib.lua
-- in every script.

local function push(e)
  redis.call(ARGV[4], ARGV[3] .. e[SID], struct.pack('>I6I7', e[SEQ], e[COUNTER]))
end

-- A queue is a range of places, some of them given up. bounds returns the first place
-- that is taken, the place after the last, how many are taken, and how far the queue is
-- compacted (dequeue).
local function bounds(name)
  local raw = redis.call('HGET', H, 'q' .. name)
  if not raw then return 0, 0, 0, '' end
  local first, last, taken = struct.unpack('>I6I6I6', raw)
  return first, last, taken, string.sub(raw, 19)
end

local function put_bounds(name, first, last, taken, moved)
  redis.call('HSET', H, 'q' .. name, struct.pack('>I6I6I6', first, last, taken) .. moved)
end

local function place_field(name, place) return 'w' .. name .. '\0' .. struct.pack('>I6', place) end

local function enqueue(name, e)
  local first, last, taken, moved = bounds(name)
  redis.call('HSET', H, place_field(name, last), plain(e) and shorten(e, 'X') or cmsgpack.pack(e),
    'i' .. id_of(e), struct.pack('>I6', last))
  put_bounds(name, first, last + 1, taken + 1, moved)
end

-- leave gives up a place. If that was the first, the first place moves on, past places that
-- were given up before; every place is passed once. It returns the new bounds.
local function leave(name, place, id)
  local gone = redis.call('HDEL', H, place_field(name, place))
  redis.call('HDEL', H, 'i' .. id)
  local first, last, taken, moved = bounds(name)
  taken = taken - gone
  if place == first and taken > 0 then
    -- The end of the queue ends the loop too: a number of taken places that was written
    -- by hand must not keep the server busy forever.
    repeat first = first + 1 until first >= last or redis.call('HEXISTS', H, place_field(name, first)) == 1
  end
  if taken <= 0 or first >= last then
    redis.call('HDEL', H, 'q' .. name)
    return 0, 0, 0, ''
  end
  put_bounds(name, first, last, taken, moved)
  return first, last, taken, moved
end

-- STEP is how many places are read at once, SPARE how many may be given up before the
-- queue is compacted.
local STEP, SPARE = 100, 64

-- step returns the fields of the next places, beginning with from, and their values.
local function step(name, from, last)
  local fields = {}
  for place = from, math.min(from + STEP, last) - 1 do fields[#fields + 1] = place_field(name, place) end
  return fields, redis.call('HMGET', H, unpack(fields))
end

-- dequeue gives up a place. Once more places are given up than taken it also compacts the
-- queue, one step per call so that no call takes long. Otherwise a claim that waits long in
-- front would keep the place of every claim that came and went behind it, and every loop over
-- the queue would walk over these places. Between two steps no place in [to, from) is taken,
-- and those before to are done; claims that leave or come between the steps do not change
-- that.
local function dequeue(name, place, id)
  local first, last, taken, moved = leave(name, place, id)
  local to, from = first, first
  if moved ~= '' then
    to, from = struct.unpack('>I6I6', moved)
    if first > to then to, from = first, first end -- the front has gone past it
  elseif last - first <= 2 * taken + SPARE then
    return
  end
  local fields, found = step(name, from, last)
  local drop, put = {}, {}
  for i, raw in ipairs(found) do
    if raw then
      if from + i - 1 > to then
        local n, at = #put, struct.pack('>I6', to)
        drop[#drop + 1] = fields[i]
        put[n + 1], put[n + 2] = 'w' .. name .. '\0' .. at, raw
        put[n + 3], put[n + 4] = 'i' .. (short(raw) and string.sub(raw, 15, 36) or id_of(cmsgpack.unpack(raw))), at
      end
      to = to + 1
    end
  end
  if #drop > 0 then
    redis.call('HDEL', H, unpack(drop))
    redis.call('HSET', H, unpack(put))
  end
  from = from + #fields
  if from >= last then
    put_bounds(name, first, to, taken, '')
  else
    put_bounds(name, first, last, taken, struct.pack('>I6I6', to, from))
  end
end

-- claims iterates over the places that are taken and their values. During the loop a place
-- may be given up once it has been returned, and only with leave.
local function claims(name)
  local from, last = bounds(name)
  local fields, found, at = {}, {}, 0
  return function()
    while true do
      if at == #fields then
        from, at = from + at, 0
        if from >= last then return nil end
        fields, found = step(name, from, last)
      end
      at = at + 1
      if found[at] then return from + at - 1, found[at] end
    end
  end
end

local function claim_of(raw, name)
  if short(raw) then return expand(raw, name) end
  return cmsgpack.unpack(raw)
end

-- waiter returns the claim at a place, if it is still taken.
local function waiter(name, place)
  local raw = redis.call('HGET', H, place_field(name, place))
  return raw and claim_of(raw, name)
end

-- stands reports whether a queued claim is of a session that lives, and of this
-- incarnation: clients queue older claims again.
local function stands(e)
  local s = session(e[SID])
  return s and s[2] == e[GENERATION] and e[INC] == inc
end

-- place_of returns the place of a queued claim, or nil. A claim that does not stand is
-- removed.
local function place_of(name, id)
  local raw = redis.call('HGET', H, 'i' .. id)
  if not raw then return nil end
  local place = struct.unpack('>I6', raw)
  local e = waiter(name, place)
  if e and stands(e) then return place end
  dequeue(name, place, id)
  return nil
end

-- ahead counts the claims before a place. With many places before it, ahead counts these
-- places instead, unless the place is the last.
local function ahead(name, place)
  local first, last, taken = bounds(name)
  if place == last - 1 then return taken - 1 end
  if place - first > 32 then return place - first end
  local n = 0
  for p = first, place - 1 do n = n + redis.call('HEXISTS', H, place_field(name, p)) end
  return n
end

-- MANY is how many dead claims one call removes from the front of a queue; stopped is set if
-- there may be more. A fleet that died while it waited must not block the server for
-- seconds. The caller goes on (Store.walk), and so does every call that comes in between.
local MANY = 256

-- promote grants from the front of the queue while the first claim fits, and removes dead
-- claims there; then it grants to claims that re-enter. It returns whether it granted any.
local function promote(name, grants)
  if grace() > 0 then return false end
  local changed, dead = false, 0
  while true do
    local first, last = bounds(name)
    if first == last then return changed end
    local e = waiter(name, first)
    if e and stands(e) then
      if not fits(name, grants, e) then break end
      grant(grants, e)
      push(e)
      changed = true
    elseif dead == MANY then
      stopped = true
      return changed
    else
      dead = dead + 1
    end
    dequeue(name, first, e and id_of(e) or '')
  end
  if exclusive(grants) and grants[1][REENTRY] ~= '' then
    for place, raw in claims(name) do
      local e = not short(raw) and cmsgpack.unpack(raw) -- a plain claim re-enters nothing
      if e and stands(e) and reenters(grants, e) then
        leave(name, place, id_of(e))
        grant(grants, e)
        push(e)
        changed = true
      end
    end
  end
  return changed
end

-- refresh drops what has ended, grants to the claims that fit then, and returns the grants.
local function refresh(name)
  local grants, fell = load(name)
  if promote(name, grants) or fell then save(name, grants) end
  return grants
end

local function find(grants, sid, seq)
  for i, g in ipairs(grants) do
    if g[SID] == sid and g[SEQ] == seq then return g, i end
  end
end

-- downgrade gives an exclusive grant the shared terms of a claim (O6), and returns whether
-- it did.
local function downgrade(name, grants, g, e)
  if g[MODE] ~= 0 or e[MODE] ~= 1 then return false end
  g[MODE], g[WEIGHT], g[LIMIT] = 1, e[WEIGHT], e[LIMIT]
  promote(name, grants)
  return true
end

local function ends_in(g)
  local till = 0
  local s = g[SID] ~= '' and session(g[SID])
  if s then till = s[1] end
  if g[MINEND] > till then till = g[MINEND] end
  if g[MAXEND] ~= 0 and (g[SID] == '' or g[MAXEND] < till) then till = g[MAXEND] end
  return math.max(0, left(till))
end

-- shown is a grant as replies carry it.
local function shown(g)
  return { g[SID], num(g[SEQ]), num(g[COUNTER]), g[MODE], num(g[WEIGHT]), g[REENTRY], g[RECORD],
    num(math.max(0, now - g[SINCE])), num(ends_in(g)) }
end
