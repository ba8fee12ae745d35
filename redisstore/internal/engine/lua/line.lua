-- The lines of claims that wait, and what is granted from them. It stands behind lib.lua
-- in every script.

local function push(e)
  redis.call(ARGV[4], ARGV[3] .. e[SID], struct.pack('>I6I7', e[SEQ], e[COUNTER]))
end

-- A line is a range of places, some of them given up. bounds returns the first place
-- that is taken, the place after the last, and how many are taken.
local function bounds(name)
  local raw = redis.call('HGET', H, 'q' .. name)
  if not raw then return 0, 0, 0 end
  return struct.unpack('>I6I6I6', raw)
end

local function place_field(name, place) return 'w' .. name .. '\0' .. struct.pack('>I6', place) end

local function enqueue(name, e)
  local first, last, taken = bounds(name)
  redis.call('HSET', H, place_field(name, last), plain(e) and shorten(e, 'X') or cmsgpack.pack(e),
    'i' .. id_of(e), struct.pack('>I6', last), 'q' .. name, struct.pack('>I6I6I6', first, last + 1, taken + 1))
end

-- dequeue gives up a place and moves the first place on if it was that.
local function dequeue(name, place, id)
  local gone = redis.call('HDEL', H, place_field(name, place))
  redis.call('HDEL', H, 'i' .. id)
  local first, last, taken = bounds(name)
  taken = taken - gone
  if taken <= 0 then
    redis.call('HDEL', H, 'q' .. name)
    return
  end
  if place == first then
    repeat first = first + 1 until redis.call('HEXISTS', H, place_field(name, first)) == 1
  end
  redis.call('HSET', H, 'q' .. name, struct.pack('>I6I6I6', first, last, taken))
end

-- waiter returns the claim at a place, if it is still taken.
local function waiter(name, place)
  local raw = redis.call('HGET', H, place_field(name, place))
  if raw and short(raw) then return expand(raw, name) end
  return raw and cmsgpack.unpack(raw)
end

-- stands says whether a claim in line is of a session that lives, of this
-- incarnation: older ones come again.
local function stands(e)
  local s = session(e[SID])
  return s and s[2] == e[EPOCH] and e[INC] == inc
end

-- in_line returns the place of a claim in line, or nil. One that does not stand is
-- removed.
local function in_line(name, id)
  local raw = redis.call('HGET', H, 'i' .. id)
  if not raw then return nil end
  local place = struct.unpack('>I6', raw)
  local e = waiter(name, place)
  if e and stands(e) then return place end
  dequeue(name, place, id)
  return nil
end

-- ahead counts those before a place; beyond a few it counts places instead, but for
-- the last.
local function ahead(name, place)
  local first, last, taken = bounds(name)
  if place == last - 1 then return taken - 1 end
  if place - first > 32 then return place - first end
  local n = 0
  for p = first, place - 1 do n = n + redis.call('HEXISTS', H, place_field(name, p)) end
  return n
end

-- promote grants from the front of the line while the front fits, skipping the
-- dead, then to whoever re-enters. It returns whether anything changed.
local function promote(name, grants)
  if grace() > 0 then return false end
  local changed = false
  while true do
    local first, last = bounds(name)
    if first == last then return changed end
    local e = waiter(name, first)
    if e and stands(e) then
      if not fits(name, grants, e) then break end
      grant(grants, e)
      push(e)
      changed = true
    end
    dequeue(name, first, e and id_of(e) or '')
  end
  if exclusive(grants) and grants[1][REENTRY] ~= '' then
    local first, last = bounds(name)
    for place = first, last - 1 do
      local e = waiter(name, place)
      if e and stands(e) and reenters(grants, e) then
        dequeue(name, place, id_of(e))
        grant(grants, e)
        push(e)
        changed = true
      end
    end
  end
  return changed
end

-- settle drops what has ended and grants to whoever fits then.
local function settle(name)
  local grants, fell = load(name)
  if promote(name, grants) or fell then save(name, grants) end
  return grants
end

local function find(grants, sid, seq)
  for i, g in ipairs(grants) do
    if g[SID] == sid and g[SEQ] == seq then return g, i end
  end
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
    num(now - g[SINCE]), num(ends_in(g)) }
end
