-- The common part of all scripts. It comes before each of them; batch.lua includes it for
-- operations that are not simple.
--
-- RUN_ID   the run id of the server if this text is known to be loaded under that run
--          id only, else ''. Set before this part (runproof.go)
-- SETUP    'first' if this script may set up a namespace, 'any' if it may also replace the
--          settings of a vacant one, else '' (script.go)
-- KEYS[1]  the bucket: one hash with everything. A call uses no other key, so while a slot
--          is migrated a server has the whole bucket or none of it
-- ARGV[1]  settings of the namespace, compared with the marker's
-- ARGV[2]  incarnation the caller's session was opened in, 0 if it has none
-- ARGV[3]  channel prefix for pushes; ARGV[4] PUBLISH or SPUBLISH
-- ARGV[5]  grace in ms, 0 for none
--
-- Fields of the bucket (docs/redis-layout.md):
--   m          marker: run id, incarnation, end of grace, settings
--   c          counter of tokens; c<slot> that of names that are voted about (slot.lua)
--   s<sid>     session: end and generation, then generation, reclaimed, ttl
--   l<name>    grants of a lock: one plain grant in its short form, others as an array
--   q<name>    a queue: first place, place after the last, how many are taken, how far moved
--   w<name>\0<place>  a queued claim      i<id>  its place
--   n<name>    stored limit
--   b<id>      tombstoned claim        k<sid>  broken claims of a session
--   r<name>    token reclaimed last in a grace
--   g          how far sweeping has come
--
-- Numbers: tokens' counters have 16 digits, so they are written with %.0f and
-- never with tostring, which keeps 14.
local H = KEYS[1]
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

-- after returns the end of a duration that begins now: a millisecond too late rather than
-- a fraction of one too early.
local function after(ms) return now + 1 + ms end

-- left returns the time until an end, and never more than the duration given to after.
local function left(till) return till - now - 1 end

local function num(x) return string.format('%.0f', x) end

local function runid()
  if RUN_ID ~= '' then return RUN_ID end
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
end

-- A plain claim, granted or queued, has a short form that batch.lua can use without
-- decoding it: a letter, counter, since, session, seq, generation, incarnation, record.
-- The letter X means that no claim waits for the lock, Y that one may.
local function short(raw) return string.byte(raw) == 88 or string.byte(raw) == 89 end

-- vacant reports whether other settings may replace those of a marker: no session is
-- open and no lock is taken. Only the data under the run id that wrote the marker proves
-- that, after its grace; after a restart or a failover sessions may be missing. A
-- namespace with several buckets is never vacant, because this script sees only one of
-- them. Neither is a namespace with more fields than a call may read.
local function vacant(m, run)
  local function alike(settings) return string.match(settings, '^v1 buckets=1 ') end
  if m[1] ~= run or m[2] > now or not alike(m[3]) or not alike(ARGV[1]) then return false end
  local at, seen = '0', 0
  repeat
    local part = redis.call('HSCAN', H, at, 'COUNT', 500)
    at, seen = part[1], seen + #part[2] / 2
    for i = 1, #part[2], 2 do
      local kind, raw = string.byte(part[2][i]), part[2][i + 1]
      if kind == 115 and struct.unpack('>I6', raw) > now then return false end
      if kind == 108 and not short(raw) then
        for _, g in ipairs(cmsgpack.unpack(raw)) do
          if g[12] > now or g[1] == '' and g[13] > now then return false end
        end
      end
    end
  until at == '0' or seen >= 2000
  return at == '0'
end

-- marker returns incarnation, end of grace, settings and run id; no incarnation if this
-- script must not go on. Another run id, or a bucket without a marker, begins a new
-- incarnation. Only a caller with the settings of the marker may begin it: otherwise the
-- first caller after a restart would replace the settings that all others agreed on. Only
-- a script that opens sessions replaces the settings of a vacant namespace.
--
-- The incarnation, and a byte that is 1 once there are counters of slots, are at fixed
-- offsets at the beginning, so that batch.lua finds them fast. With the run id the value is
-- too long for the compact encoding of the hash, whose lookups are linear.
local function marker()
  local raw, run, ms = redis.call('HGET', H, 'm'), runid(), tonumber(ARGV[5])
  if raw then
    local m = cmsgpack.unpack(string.sub(raw, 9))
    if m[3] ~= ARGV[1] then
      if SETUP ~= 'any' or not vacant(m, run) then return nil, nil, m[3] end
    elseif m[1] == run then
      if m[2] > after(ms) then -- it was set while the clock was ahead
        m[2] = after(ms)
        redis.call('HSET', H, 'm', string.sub(raw, 1, 8) .. cmsgpack.pack(m))
      end
      return struct.unpack('>I7', raw), m[2], m[3], run
    end
  elseif SETUP == '' then
    return nil
  end
  local counter = tonumber(redis.call('HGET', H, 'c') or '0')
  -- With grace nothing is granted before its end, so the counter may start at the time of
  -- that end: then tokens that came from another server's clock are lower, too.
  redis.call('HSET', H, 'c', num(math.max(counter + 1, micros + ms * 1000)))
  local over, voted = ms > 0 and after(ms) or 0, raw and string.sub(raw, 8, 8) or '\0'
  redis.call('HSET', H, 'm', struct.pack('>I7', micros) .. voted .. cmsgpack.pack({ run, over, ARGV[1] }))
  return micros, over, ARGV[1], run
end

local inc, grace_end, settings, run = marker()
if not inc then
  if settings then return { 'REFUSED', settings } end
  return { ARGV[2] == '0' and 'VACANT' or 'RESET' }
end

local function grace() return math.max(0, grace_end - now) end

-- was_reset reports whether the caller's session is of another incarnation.
local function was_reset() return tonumber(ARGV[2]) ~= inc end

local sessions = {}

-- session returns { end, generation, reclaimed, ttl, marks }, or nil if the session has
-- ended; marks is how many of its claims are marked by b<id>. End, generation and whether
-- there are marks are at fixed offsets at the beginning, so that batch.lua finds them fast.
local function session(sid)
  local s = sessions[sid]
  if s == nil then
    local raw = sid ~= '' and redis.call('HGET', H, 's' .. sid)
    s = false
    if raw then
      local till = struct.unpack('>I6', raw)
      if till > now then
        local more = cmsgpack.unpack(string.sub(raw, 15))
        if till > after(more[3]) then -- it was set while the clock was ahead
          till = after(more[3])
          redis.call('HSET', H, 's' .. sid, struct.pack('>I6', till) .. string.sub(raw, 7))
        end
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

-- Grants and queued claims are arrays:
local SID, SEQ, MODE, WEIGHT, LIMIT, REENTRY, RECORD, MIN, MAX, SINCE, COUNTER, MINEND, MAXEND, GENERATION, INC, NAME, KEPT =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17

-- broken_of returns the broken claims that a keep-alive reports. Claims that were withdrawn
-- since are negative and left out.
local function broken_of(sid)
  local raw, reported = redis.call('HGET', H, 'k' .. sid), {}
  for _, b in ipairs(raw and cmsgpack.unpack(raw) or {}) do
    if b > 0 then reported[#reported + 1] = b end
  end
  return #reported > 0 and cmsgpack.pack(reported) or ''
end

local function id_from(sid, seq) return sid .. struct.pack('>I6', seq) end
local function id_of(e) return id_from(e[SID], e[SEQ]) end

-- A mark is for a claim that must not be granted. '1' means tombstoned, and stays until no
-- call of the claim can be in flight any more. 'x' means spent: the grant has ended, and the
-- mark stays until the claim is withdrawn. The time of marking follows.
-- counted reports whether a mark is in the session's count. Marks of an earlier session with
-- the same id are not: to subtract one of them would hide another mark.
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

-- lives reports whether a grant stands: its session lives, is the session that it was
-- granted to, and has not finished reclaiming without it after a data loss.
local function lives(g)
  local s = session(g[SID])
  return s and s[2] == g[GENERATION] and (g[INC] == inc or s[3] ~= inc)
end

-- keep takes a grant from its session and keeps the lock taken until a time.
local function keep(g, till)
  g[SID], g[MAXEND], g[KEPT] = '', till, left(till)
end

-- bound moves the ends of a grant that were set while the clock was ahead to where they
-- would be if the grant were made now, and returns whether it moved any.
local function bound(g)
  local most = g[SID] == '' and tonumber(g[KEPT]) or g[SID] ~= '' and g[MAX] > 0 and g[MAX]
  local changed = false
  if g[MINEND] > after(g[MIN]) then g[MINEND], changed = after(g[MIN]), true end
  if most and g[MAXEND] > after(most) then g[MAXEND], changed = after(most), true end
  return changed
end

local function expand(raw, name)
  local counter, since, seq, generation, of
  counter, since = struct.unpack('>I7I6', raw, 2)
  seq, generation, of = struct.unpack('>I6I7I7', raw, 31)
  return { string.sub(raw, 15, 30), seq, 0, 1, 0, '', string.sub(raw, 51), 0, 0, since, counter, 0, 0, generation, of, name }
end

-- plain reports whether a claim has a short form. A claim with more elements, which a later
-- version wrote, has none: these elements would be lost.
local function plain(e)
  return #e == NAME and e[SID] ~= '' and e[MODE] == 0 and e[WEIGHT] == 1 and e[LIMIT] == 0 and e[REENTRY] == '' and e[MIN] == 0
    and e[MAX] == 0 and e[MAXEND] == 0
end

local function shorten(e, letter)
  return letter .. struct.pack('>I7I6', e[COUNTER], e[SINCE]) .. e[SID] .. struct.pack('>I6I7I7', e[SEQ], e[GENERATION], e[INC])
    .. e[RECORD]
end

-- load returns the grants of a lock that stand, and whether any was dropped or changed.
local function load(name)
  local raw = redis.call('HGET', H, 'l' .. name)
  local all, standing, fell = {}, {}, false
  if raw then
    all = short(raw) and { expand(raw, name) } or cmsgpack.unpack(raw)
    fell = #all == 0
  end
  for _, g in ipairs(all) do
    if bound(g) then fell = true end
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

-- stopped is set when dead claims may be left in front of a queue (promote of queue.lua).
local stopped = false

-- save writes the grants of a lock. During grace no grant is in its short form. A claim
-- that waits for the end of grace has no holder before it, so the field stays, empty, and
-- shows batch.lua that the lock is not free; and a grant that was reclaimed leaves r<name>
-- behind. The field also stays, empty, while dead claims hide the first claim that lives:
-- without the field batch.lua would grant the lock to a claim that came later, and would not
-- read the queue when that claim is withdrawn.
local function save(name, grants)
  if #grants == 0 and grace() == 0 and not stopped then
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

-- fits reports whether a claim can be granted beside the grants.
local function fits(name, grants, e)
  if e[MODE] == 0 then return #grants == 0 or reenters(grants, e) end
  if exclusive(grants) then return false end
  if e[LIMIT] == 0 then return true end
  local limit = tonumber(redis.call('HGET', H, 'n' .. name) or e[LIMIT])
  local used = math.min(e[WEIGHT], limit)
  for _, g in ipairs(grants) do used = used + math.min(g[WEIGHT], limit) end
  return used <= limit
end

-- highest returns the counter of a name: no token of the name is higher.
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
