-- The common part of every script: it stands before each of them, and inside
-- fold.lua for what is not simple.
--
-- KEYS[1]  the bucket: one hash with everything. A call touches no other key, so
--          a slot that is being migrated has it or has it not, never half
-- ARGV[1]  settings of the namespace, compared with the marker's
-- ARGV[2]  incarnation the caller's session was opened in, 0 if it has none
-- ARGV[3]  channel prefix for pushes; ARGV[4] PUBLISH or SPUBLISH
-- ARGV[5]  grace in ms, 0 for none
-- ARGV[6]  channel whose subscriber proves this life of the server, or ''
-- ARGV[7]  run id of that life; ARGV[8] NUMSUB or SHARDNUMSUB
--
-- Fields of the bucket (docs/redis-layout.md):
--   m          marker: run id, incarnation, end of grace, settings
--   c          counter of tokens; c<slot> that of some names (slot.lua)
--   s<sid>     session: end and epoch, then epoch, reclaimed, ttl
--   l<name>    grants of a lock: one simple grant as X…, others as an array
--   q<name>    a line: first place, place after the last
--   w<name>\0<place>  a claim in line      i<id>  its place
--   n<name>    stored limit
--   b<id>      buried claim        k<sid>  broken claims of a session
--   r<name>    token reclaimed last in a grace
--
-- Numbers: tokens' counters have 16 digits, so they are written with %.0f and
-- never with tostring, which keeps 14.
local H = KEYS[1]
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

-- after is the end of a duration that begins now: a millisecond late rather than
-- a part of one early.
local function after(ms) return now + 1 + ms end

-- left is what is left until an end, and never more than it was made for.
local function left(till) return till - now - 1 end

local function num(x) return string.format('%.0f', x) end

local function runid()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
end

-- marker returns the marker of this life; a new life, or a memory without one,
-- begins a new incarnation.
local function marker()
  local raw = redis.call('HGET', H, 'm')
  local m = raw and cmsgpack.unpack(raw)
  if m and ARGV[6] ~= '' and m[1] == ARGV[7] then
    if redis.call('PUBSUB', ARGV[8], ARGV[6])[2] > 0 then return m end
  end
  local run = runid()
  if m and m[1] == run then return m end
  local counter, grace = tonumber(redis.call('HGET', H, 'c') or '0'), tonumber(ARGV[5])
  -- With grace nothing is granted before its end, so the clock of then will do:
  -- tokens that came from another server's clock stay below too.
  redis.call('HSET', H, 'c', num(math.max(counter + 1, micros + grace * 1000)))
  -- The filler keeps the hash out of the compact encoding, whose look-ups are
  -- linear.
  m = { run, micros, grace > 0 and after(grace) or 0, ARGV[1], string.rep('.', 64) }
  redis.call('HSET', H, 'm', cmsgpack.pack(m))
  return m
end

local M = marker()
local inc = M[2]
if M[4] ~= ARGV[1] then return { 'REFUSED', M[4] } end

local function grace() return math.max(0, M[3] - now) end

-- forgotten says whether the caller's session is of another incarnation.
local function forgotten() return tonumber(ARGV[2]) ~= inc end

local sessions = {}

-- session returns { end, epoch, reclaimed, ttl } or nil if it has ended. End and
-- epoch stand first and in fixed places, so that fold.lua finds them fast.
local function session(sid)
  local s = sessions[sid]
  if s == nil then
    local raw = sid ~= '' and redis.call('HGET', H, 's' .. sid)
    s = false
    if raw then
      local till = struct.unpack('>I6', raw)
      if till > now then
        local more = cmsgpack.unpack(string.sub(raw, 14))
        s = { till, more[1], more[2], more[3] }
      end
    end
    sessions[sid] = s
  end
  return s or nil
end

local function put_session(sid, s)
  sessions[sid] = s
  redis.call('HSET', H, 's' .. sid, struct.pack('>I6I7', s[1], s[2]) .. cmsgpack.pack({ s[2], s[3], s[4] }))
end

-- A grant, and a claim in line, is an array:
local SID, SEQ, MODE, WEIGHT, LIMIT, REENTRY, RECORD, MIN, MAX, SINCE, COUNTER, MINEND, MAXEND, EPOCH, INC, NAME =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16

local function id_of(e) return e[SID] .. num(e[SEQ]) end

-- A claim that must not be granted: '1' buried, for the life of its session, or 'x'
-- spent, its grant has ended, until it is withdrawn.
local function bury(id) redis.call('HSET', H, 'b' .. id, '1') end
local function spend(g)
  if g[SID] ~= '' then redis.call('HSETNX', H, 'b' .. id_of(g), 'x') end
end

-- lives says whether a grant stands: its session lives, is the one it was granted
-- under, and has not reclaimed without it after a loss of memory.
local function lives(g)
  local s = session(g[SID])
  return s and s[2] == g[EPOCH] and (g[INC] == inc or s[3] ~= inc)
end

-- keep makes a grant nobody's until a time.
local function keep(g, till)
  g[SID], g[MAXEND] = '', till
end

-- simple reads a grant that fold.lua wrote: X, counter, since, session, seq,
-- epoch, incarnation, record. Nobody waits for a lock in this form.
local function simple(raw, name)
  local counter, since, seq, epoch, of
  counter, since = struct.unpack('>I7I6', raw, 2)
  seq, epoch, of = struct.unpack('>I6I7I7', raw, 31)
  return { string.sub(raw, 15, 30), seq, 0, 1, 0, '', string.sub(raw, 51), 0, 0, since, counter, 0, 0, epoch, of, name }
end

-- load returns the grants of a lock that stand, and whether some fell.
local function load(name)
  local raw = redis.call('HGET', H, 'l' .. name)
  local all, standing, fell = {}, {}, false
  if raw then all = string.byte(raw) == 88 and { simple(raw, name) } or cmsgpack.unpack(raw) end
  for _, g in ipairs(all) do
    if g[MAXEND] ~= 0 and now >= g[MAXEND] then
      fell = true
      spend(g)
    elseif g[SID] == '' or lives(g) then
      standing[#standing + 1] = g
    elseif g[MINEND] > now then
      fell = true
      keep(g, g[MINEND])
      standing[#standing + 1] = g
    else
      fell = true
    end
  end
  return standing, fell
end

local function save(name, grants)
  if #grants == 0 and grace() == 0 then
    redis.call('HDEL', H, 'l' .. name, 'r' .. name)
  elseif #grants == 0 then
    redis.call('HDEL', H, 'l' .. name)
  else
    redis.call('HSET', H, 'l' .. name, cmsgpack.pack(grants))
  end
end

local function exclusive(grants)
  for _, g in ipairs(grants) do
    if g[MODE] == 0 then return true end
  end
  return false
end

local function reenters(grants, e)
  if e[REENTRY] == '' or e[MODE] ~= 0 or not exclusive(grants) then return false end
  for _, g in ipairs(grants) do
    if g[SID] == '' or g[REENTRY] ~= e[REENTRY] then return false end
  end
  return true
end

-- fits says whether a claim can be granted beside the grants.
local function fits(name, grants, e)
  if e[MODE] == 0 then return #grants == 0 or reenters(grants, e) end
  if exclusive(grants) then return false end
  if e[LIMIT] == 0 then return true end
  local limit = tonumber(redis.call('HGET', H, 'n' .. name) or e[LIMIT])
  local used = math.min(e[WEIGHT], limit)
  for _, g in ipairs(grants) do used = used + math.min(g[WEIGHT], limit) end
  return used <= limit
end

-- highest is the counter of a name: no token of it is above.
local function highest(name)
  local v = redis.call('HMGET', H, 'c', slot(name))
  return math.max(tonumber(v[1]), tonumber(v[2] or '0')), v[2]
end

-- raise makes the next counter of a name at least floor.
local function raise(name, floor)
  if highest(name) < floor - 1 then redis.call('HSET', H, slot(name), num(floor - 1)) end
end

-- tick counts up and returns the counter of a new grant.
local function tick(name)
  local n, own = highest(name)
  if not own then return redis.call('HINCRBY', H, 'c', 1) end
  redis.call('HSET', H, slot(name), num(n + 1))
  return n + 1
end

local function hold(e, counter)
  e[COUNTER], e[SINCE], e[INC] = counter, now, inc
  e[MINEND] = e[MIN] > 0 and after(e[MIN]) or 0
  e[MAXEND] = e[MAX] > 0 and after(e[MAX]) or 0
end

local function grant(grants, e)
  local counter
  if reenters(grants, e) then
    counter = grants[1][COUNTER]
  else
    counter = tick(e[NAME])
  end
  hold(e, counter)
  grants[#grants + 1] = e
end

local function push(e)
  redis.call(ARGV[4], ARGV[3] .. e[SID], num(e[SEQ]) .. ' ' .. num(e[COUNTER]))
end

-- A line is a range of places, some of them given up. bounds returns the first
-- place that is taken and the place after the last, equal if nobody waits.
local function bounds(name)
  local raw = redis.call('HGET', H, 'q' .. name)
  if not raw then return 0, 0 end
  return struct.unpack('>I6I6', raw)
end

local function place_field(name, place) return 'w' .. name .. '\0' .. num(place) end

local function enqueue(name, e)
  local first, last = bounds(name)
  local place = num(last)
  redis.call('HSET', H, place_field(name, last), cmsgpack.pack(e), 'i' .. id_of(e), place,
    'q' .. name, struct.pack('>I6I6', first, last + 1))
end

-- dequeue gives up a place and moves the first place on if it was that.
local function dequeue(name, place, id)
  redis.call('HDEL', H, place_field(name, place), 'i' .. id)
  local first, last = bounds(name)
  if place ~= first then return end
  repeat first = first + 1 until first >= last or redis.call('HEXISTS', H, place_field(name, first)) == 1
  if first >= last then
    redis.call('HDEL', H, 'q' .. name)
  else
    redis.call('HSET', H, 'q' .. name, struct.pack('>I6I6', first, last))
  end
end

-- waiter returns the claim at a place, if it is still taken.
local function waiter(name, place)
  local raw = redis.call('HGET', H, place_field(name, place))
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
  local place = tonumber(redis.call('HGET', H, 'i' .. id) or '')
  if not place then return nil end
  local e = waiter(name, place)
  if e and stands(e) then return place end
  dequeue(name, place, id)
  return nil
end

-- ahead counts those before a place; beyond a few it counts places instead.
local function ahead(name, place)
  local first = bounds(name)
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
