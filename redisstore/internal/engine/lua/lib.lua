-- The common part of every script: it stands before each of them, and inside
-- fold.lua for what is not simple.
--
-- LIFE     the run id of the server if this text is known to be loaded in that life
--          of it only, else ''. Set before this part (life.go)
-- KEYS[1]  the bucket: one hash with everything. A call touches no other key, so
--          a slot that is being migrated has it or has it not, never half
-- ARGV[1]  settings of the namespace, compared with the marker's
-- ARGV[2]  incarnation the caller's session was opened in, 0 if it has none
-- ARGV[3]  channel prefix for pushes; ARGV[4] PUBLISH or SPUBLISH
-- ARGV[5]  grace in ms, 0 for none
--
-- Fields of the bucket (docs/redis-layout.md):
--   m          marker: run id, incarnation, end of grace, settings
--   c          counter of tokens; c<slot> that of names that are voted about (slot.lua)
--   s<sid>     session: end and epoch, then epoch, reclaimed, ttl
--   l<name>    grants of a lock: one plain grant in its short form, others as an array
--   q<name>    a line: first place, place after the last, how many are taken, how far moved
--   w<name>\0<place>  a claim in line      i<id>  its place
--   n<name>    stored limit
--   b<id>      buried claim        k<sid>  broken claims of a session
--   r<name>    token reclaimed last in a grace
--   g          how far sweeping has come
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
  if LIFE ~= '' then return LIFE end
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
end

-- marker returns run id, incarnation, end of grace and settings. A new life, or a
-- memory without a marker, begins a new incarnation. The incarnation, and a byte that
-- is 1 once there are counters of slots, stand first and in fixed places, so that
-- fold.lua finds them fast; and with the run id the value is too long for the compact
-- encoding of the hash, whose look-ups are linear.
local function marker()
  local raw, run = redis.call('HGET', H, 'm'), runid()
  if raw then
    local m = cmsgpack.unpack(string.sub(raw, 9))
    if m[1] == run then return m[1], struct.unpack('>I7', raw), m[2], m[3] end
  end
  local counter, grace = tonumber(redis.call('HGET', H, 'c') or '0'), tonumber(ARGV[5])
  -- With grace nothing is granted before its end, so the clock of then will do:
  -- tokens that came from another server's clock stay below too.
  redis.call('HSET', H, 'c', num(math.max(counter + 1, micros + grace * 1000)))
  local over, voted = grace > 0 and after(grace) or 0, raw and string.sub(raw, 8, 8) or '\0'
  redis.call('HSET', H, 'm', struct.pack('>I7', micros) .. voted .. cmsgpack.pack({ run, over, ARGV[1] }))
  return run, micros, over, ARGV[1]
end

local run, inc, grace_end, settings = marker()
if settings ~= ARGV[1] then return { 'REFUSED', settings } end

local function grace() return math.max(0, grace_end - now) end

-- forgotten says whether the caller's session is of another incarnation.
local function forgotten() return tonumber(ARGV[2]) ~= inc end

local sessions = {}

-- session returns { end, epoch, reclaimed, ttl, marks } or nil if it has ended; marks is
-- how many of its claims are marked by b<id>. End, epoch and whether there are marks
-- stand first and in fixed places, so that fold.lua finds them fast.
local function session(sid)
  local s = sessions[sid]
  if s == nil then
    local raw = sid ~= '' and redis.call('HGET', H, 's' .. sid)
    s = false
    if raw then
      local till = struct.unpack('>I6', raw)
      if till > now then
        local more = cmsgpack.unpack(string.sub(raw, 15))
        s = { till, more[1], more[2], more[3], more[4] }
      end
    end
    sessions[sid] = s
  end
  return s or nil
end

local function put_session(sid, s)
  sessions[sid] = s
  redis.call('HSET', H, 's' .. sid, struct.pack('>I6I7', s[1], s[2]) .. (s[5] > 0 and '\1' or '\0')
    .. cmsgpack.pack({ s[2], s[3], s[4], s[5] }))
end

-- A grant, and a claim in line, is an array:
local SID, SEQ, MODE, WEIGHT, LIMIT, REENTRY, RECORD, MIN, MAX, SINCE, COUNTER, MINEND, MAXEND, EPOCH, INC, NAME =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16

local function id_from(sid, seq) return sid .. struct.pack('>I6', seq) end
local function id_of(e) return id_from(e[SID], e[SEQ]) end

-- A claim that must not be granted: '1' buried, until no call of it can be on its way
-- any more, or 'x' spent, its grant has ended, until it is withdrawn. Then when it was
-- marked. The session counts its marks, but for those of an earlier session of the same
-- id: to take off one of these would hide another.
local function counted(s, raw) return struct.unpack('>I6', raw, 2) * 1000 >= s[2] end

local function count(sid, s, n)
  s[5] = math.max(0, s[5] + n)
  put_session(sid, s)
end

local function mark(sid, id, kind)
  local s, raw = session(sid), redis.call('HGET', H, 'b' .. id)
  if raw and kind == 'x' then kind = string.sub(raw, 1, 1) end
  redis.call('HSET', H, 'b' .. id, kind .. struct.pack('>I6', now))
  if s and not (raw and counted(s, raw)) then count(sid, s, 1) end
end

local function unmark(sid, id, raw)
  local s = session(sid)
  redis.call('HDEL', H, 'b' .. id)
  if s and counted(s, raw) then count(sid, s, -1) end
end

local function spend(g)
  if g[SID] ~= '' then mark(g[SID], id_of(g), 'x') end
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

-- A plain claim, granted or in line, has a short form that fold.lua can do without
-- taking it apart: a letter, counter, since, session, seq, epoch, incarnation, record.
-- The letter X says that nobody waits for the lock, Y that somebody may.
local function short(raw) return string.byte(raw) == 88 or string.byte(raw) == 89 end

local function expand(raw, name)
  local counter, since, seq, epoch, of
  counter, since = struct.unpack('>I7I6', raw, 2)
  seq, epoch, of = struct.unpack('>I6I7I7', raw, 31)
  return { string.sub(raw, 15, 30), seq, 0, 1, 0, '', string.sub(raw, 51), 0, 0, since, counter, 0, 0, epoch, of, name }
end

-- One with more elements, which a later version wrote, has no short form: they would be lost.
local function plain(e)
  return #e == NAME and e[SID] ~= '' and e[MODE] == 0 and e[WEIGHT] == 1 and e[LIMIT] == 0 and e[REENTRY] == '' and e[MIN] == 0
    and e[MAX] == 0 and e[MAXEND] == 0
end

local function shorten(e, letter)
  return letter .. struct.pack('>I7I6', e[COUNTER], e[SINCE]) .. e[SID] .. struct.pack('>I6I7I7', e[SEQ], e[EPOCH], e[INC])
    .. e[RECORD]
end

-- load returns the grants of a lock that stand, and whether some fell.
local function load(name)
  local raw = redis.call('HGET', H, 'l' .. name)
  local all, standing, fell = {}, {}, false
  if raw then
    all = short(raw) and { expand(raw, name) } or cmsgpack.unpack(raw)
    fell = #all == 0
  end
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

-- save writes the grants of a lock. During a grace nothing is short: whoever waits
-- for its end waits for nobody, so the field stays, empty, for fold.lua to see that
-- the lock is not free; and what was reclaimed leaves r<name> behind.
local function save(name, grants)
  if #grants == 0 and grace() == 0 then
    redis.call('HDEL', H, 'l' .. name, 'r' .. name)
    return
  end
  local waited = redis.call('HEXISTS', H, 'q' .. name) == 1
  if #grants == 0 and not waited then
    redis.call('HDEL', H, 'l' .. name)
  elseif #grants == 1 and grace() == 0 and plain(grants[1]) then
    redis.call('HSET', H, 'l' .. name, shorten(grants[1], waited and 'Y' or 'X'))
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
  if highest(name) >= floor - 1 then return end
  redis.call('HSET', H, slot(name), num(floor - 1))
  local m = redis.call('HGET', H, 'm')
  if string.byte(m, 8) == 0 then redis.call('HSET', H, 'm', string.sub(m, 1, 7) .. '\1' .. string.sub(m, 9)) end
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
