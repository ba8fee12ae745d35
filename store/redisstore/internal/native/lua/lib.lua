-- The common part of every script but those that decide.lua is enough for. It stands behind that.
--
-- OWN      what a process asks for itself when it opens a session, as $asks, else '-0' (script.go)
-- SETUP    'first' if this script may set up a namespace, 'new' if it does so without a grace
--          period, else '' (script.go)
--
-- ARGV layout incarnation channel publish asks
--   layout       of the namespace, compared with the marker's
--   incarnation  the caller's session was opened in; if the call is of no session, the
--                highest that its process has seen, negative, or 0
--   channel      prefix of the channels for pushes
--   publish      PUBLISH or SPUBLISH
--   asks         the highest max_ttl in ms that the caller asks for or has seen, negative if it neither asks for grace
--                nor has seen it
--
-- Fields of H:
--   m          marker: incarnation, 1 if there are votes, until when a check of the replication id
--              counts (6 bytes, ms), 1 if there is grace, max_ttl (6 bytes, ms), end of the grace period (6 bytes, ms),
--              then run id, layout, replication id, 1 if there was a replication backlog, end of the grace period that began
--              with a data loss (ms), last number of before, that of the latest incarnation that gave numbers,
--              and the number up to which lost grants are not put back
--   v          the last ticket that was made: those in T are up to that
--   c<slot>    counter of names that are voted about (slot)
--   s<sid>     session: end or an earlier one, generation, marks, ttl, reclaimed, the max_ttl that its process
--              declares (negative if that asks for no grace): 6, 7, 4, 6, 7, 6 bytes
--   n<name>    stored limit
--   b<id>      tombstoned claim        k<sid>  broken claims of a session
--   w<sid>     those of them that were withdrawn last
--   r<name>    token reclaimed last in a grace
--   g          lease of the sweeper
--
-- T is the tickets that are ready, rising. It is empty during a grace, and as soon as there
-- are votes: without a ticket no transaction of plain commands can be granted.
--
-- Z is a sorted set of sessions by their ends. Keep-alives move an end there, and scripts note it
-- in H when they find that the end in H is over.
--
-- K is a sorted set of names whose lock no process may ask for again, by the time from which on a script
-- finds something to remove there: the end of what is kept without a session, or of the grace. Sessions
-- that are alive look into it (sweep.go).
--
-- L is pairs of a ticket and a claim, the holder first, then the queue. Its claims begin with
--   X  pushed by a transaction of plain commands: if it is the first it holds the lock
--   G  granted by a script, otherwise as X
--   Q  queued, otherwise as X
--   C  queued, an array
--   A  exclusive grants, an array of arrays
--   S  the lock is shared, its grants are in G; its ticket is 0. Count, sum of weights,
--      largest weight, highest number so far, cursor of clean, when its round began
-- A short claim (X, G, Q): letter, 6 bytes since, 16 session, 6 seq, 7 generation,
-- 7 incarnation, record. The number of the grant in X or G is its ticket, so that the
-- numbers behind it are higher, and plain commands may remove it. Only scripts remove A and S.
--
-- Numbers have 16 digits, so they are written with %.0f and never with tostring,
-- which keeps 14.
-- left is what is left until an end, and never more than it was made for.
local function left(till) return till - now - 1 end

local function runid()
  if RUN_ID ~= '' then return RUN_ID end
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
end

-- check_for is for how many ms a check of the replication id counts: less than a grace period, because a
-- server that was replaced must have none by the time the other one grants, and seldom enough to cost nothing.
local function check_for(m) return math.min(1000, m.grace and math.floor(m.max / 4) or 1000) end

local looked -- whether this call has found the replication id unchanged, nil if it did not look
local replica -- whether this call has found that the server is one

-- unreplaced reports whether a server has been the master since its replication id was noted and last
-- checked, and returns the id of now and whether there is a backlog. A replica that is promoted gets another id,
-- and the last one becomes its second. A master to which the first replica connects also gets one, without
-- a second id, and a backlog, which it did not have. A server that has had no replica for repl-backlog-ttl has neither
-- a second id nor a backlog any more: nobody knows whether it was promoted before that. A replica has been replaced, or never was
-- the master, even if it has the id that was noted.
local function unreplaced(m)
  local info = redis.call('INFO', 'replication')
  replica = string.find(info, 'role:slave', 1, true)
  local own, second = string.match(info, 'master_replid:(%w*)') or '', string.match(info, 'master_replid2:(%w*)') or ''
  local backlog = tonumber(string.match(info, 'repl_backlog_active:(%d)') or '0')
  looked = not replica
    and (own == m.id or not string.find(second, '[^0]') and m.backlog ~= 1 and backlog == 1 and now - m.till < 600000)
  return looked, own, backlog
end

-- issued is the last ticket that a claim was given.
local function issued()
  local next = call('LINDEX', T, 0)
  return next and tonumber(next) - 1 or tonumber(call('HGET', H, 'v') or '0')
end

-- given is at least every number so far. Votes that batch.lua grants have theirs from the counters of their slots alone.
local function given(m)
  local last, slots = issued(), {}
  for i = 0, m.voted and 255 or -1 do slots[#slots + 1] = 'c' .. i end
  for _, c in ipairs(m.voted and call('HMGET', H, unpack(slots)) or {}) do last = math.max(last, tonumber(c or '0')) end
  return last
end

-- read_marker reads a marker.
local function read_marker(raw)
  local m, at = head(raw)
  local rest = cmsgpack.unpack(sub(raw, at))
  m.run, m.layout, m.id, m.backlog, m.first = rest[1], rest[2], rest[3], rest[4], rest[5] or m.over
  m.before, m.last, m.outdated = rest[6] or m.inc, rest[7] or 0, rest[8] or 0
  return m
end

local function write_marker(m)
  call('HSET', H, 'm', struct.pack('>I7BI6BI6I6', m.inc, m.voted and 1 or 0, m.till, m.grace and 1 or 0, m.max, m.over)
    .. cmsgpack.pack({ m.run, m.layout, m.id, m.backlog, m.first, m.before, m.last, m.outdated }))
end

-- full is the end of the grace period that an incarnation would have had with the settings of now.
local function full(m) return math.min(math.floor(m.inc / 1000) + 1, now) + m.max end

-- rest is the same, 0 if that is over or there is none.
local function rest(m) return m.grace and full(m) > now and full(m) or 0 end

-- outdate is for an incarnation that had less grace than it should. Of the grants from before the latest incarnation that gave numbers, those
-- that the data has lost are not put back: another grant may have been made since, and released again, and nothing shows of which lock
-- it was (R4). What was reclaimed in time is not lost: it is older than what was granted then.
local function outdate(m) m.outdated = m.last end

-- remember notes that an incarnation has given numbers.
local function remember(m)
  if given(m) > m.before then m.last = m.before end
end

-- finish has the rest of a grace period count in an incarnation that got grace or a higher max_ttl, if it is so young that
-- earlier leases may be trusted: who knew of no grace was the first after a data loss.
local function finish(m)
  if rest(m) > m.over then
    if m.over <= now then remember(m) end
    outdate(m)
    m.over = rest(m)
    call('LTRIM', T, 1, 0)
  end
end

-- strengthen gives the namespace what the caller asks for and it has not: grace, or a higher max_ttl. What the caller has only
-- seen counts if that was in an earlier incarnation: in this one an operator may have made it weaker. What has seen one shows that data
-- was lost, so no operator undoes the rest of the grace period (settings.lua). It reports whether it changed something.
local function strengthen(m)
  local saw = math.abs(tonumber($incarnation))
  local ask = tonumber(saw < m.inc and $asks or OWN)
  if not (ask > 0 and not m.grace or math.abs(ask) > m.max) then return false end
  m.grace, m.max = m.grace or ask > 0, math.max(m.max, math.abs(ask))
  finish(m)
  if saw > 0 and saw < m.inc then m.first = math.max(m.first, m.over) end
  return true
end

-- current returns whether a marker is of this server as it is now. Scripts that know the run id without
-- INFO look at the replication id only when the last check does not count any more. Calls that only
-- show something ask for nothing.
local function current(m, run)
  if m.run ~= run or math.abs(tonumber($incarnation)) > m.inc then return false end
  local changed = (SETUP ~= '' or tonumber($incarnation) > 0) and strengthen(m)
  if m.over > after(m.max) then m.over, changed = after(m.max), true end -- it was set while the clock was ahead
  if RUN_ID == '' or SETUP ~= '' or not checked(m) then
    local same, id, backlog = unreplaced(m)
    if not same then return false end
    local ms = check_for(m)
    if changed or id ~= m.id or backlog ~= m.backlog or m.till - now < ms / 2 or m.till - now > ms then
      m.id, m.backlog, m.till, changed = id, backlog, now + ms, true
    end
  end
  if changed then write_marker(m) end
  return true
end

-- marker returns the marker; none if this script must not go on. Another run id, another replication id, a caller
-- that has seen a later incarnation, or a bucket without a marker, begins a new incarnation, above every ticket of the
-- last. It has grace if the last one had, or the caller asks for it, and lasts as long as the highest max_ttl that is known
-- (package gracemodel). Only a caller with the same layout may begin it: another one keeps names in other buckets.
local function marker()
  local raw, run = call('HGET', H, 'm'), runid()
  local m = { inc = 0, voted = false, grace = false, max = 0, last = 0, outdated = 0 }
  if raw then
    m = read_marker(raw)
    if m.layout ~= $layout then return nil, m.layout end
    if current(m, run) then return m end
  elseif SETUP == '' then
    return nil
  end
  local ask = tonumber($asks)
  m.grace, m.max, m.run, m.layout = m.grace or ask > 0, math.max(m.max, math.abs(ask)), run, $layout
  if raw then
    remember(m)
    if full(m) > m.first then outdate(m) end
  end
  m.inc = math.max(micros, m.inc + 1, math.abs(tonumber($incarnation)) + 1)
  local ms = m.grace and (raw or SETUP ~= 'new') and m.max or 0
  m.over, m.till = ms > 0 and after(ms) or 0, now + check_for(m)
  m.first = m.over
  local _, id, backlog = unreplaced(m)
  if replica then return nil end
  m.id, m.backlog = id, backlog
  -- First what needs memory: a server whose memory is full rejects only the first write. With grace nothing
  -- is granted before its end, so the clock of then will do: tokens that came from another server's clock stay below too.
  m.before = math.max(given(m) + 1, m.inc + ms * 1000)
  call('HSET', H, 'v', num(m.before))
  write_marker(m)
  call('LTRIM', T, 1, 0)
  looked, m.began = true, true
  return m
end

local layout
this, layout = marker()
if not this then
  -- Most replicas reject the first write by themselves, with this code. One with replica-read-only no would grant what its
  -- master grants too.
  if replica then return redis.error_reply('READONLY it is a replica, though it accepts writes (replica-read-only no); connect to its master') end
  if layout then return { 'REFUSED', layout } end
  return { tonumber($incarnation) <= 0 and 'VACANT' or 'RESET' }
end
local inc, grace_end, run = this.inc, this.over, this.run

local function grace() return math.max(0, grace_end - now) end

-- was_reset reports whether the caller's session is of another incarnation.
local function was_reset() return tonumber($incarnation) ~= inc end

-- FULL is up to how many tickets are made, and ENOUGH is from how many on none are made. A
-- process asks for more with every 512th (plain.go).
local FULL, ENOUGH = 1536, 1280

local function refill()
  if this.voted or grace() > 0 then return end
  local left = call('LLEN', T)
  if left >= ENOUGH then return end
  local v, all = tonumber(call('HGET', H, 'v')), {}
  for i = 1, FULL - left do all[i] = num(v + i) end
  call('RPUSH', T, unpack(all))
  call('HSET', H, 'v', all[#all])
end

-- draw takes the next ticket.
local function draw()
  -- It changes nothing. A server whose memory is full rejects it, and would not reject what
  -- comes after the first write of a script.
  call('HSETNX', H, 'm', '')
  local t = call('LPOP', T)
  return t and tonumber(t) or call('HINCRBY', H, 'v', 1)
end

-- sure reports whether a session that is over by the clock is over. If this server was a replica in between,
-- the session may have been kept alive on another one. Then the next call begins a new
-- incarnation, and this one ends no session.
function sure()
  if looked == nil and not unreplaced(this) then
    this.till = 0
    write_marker(this)
  end
  return looked
end

local function put_session(sid, s)
  sessions[sid] = s
  call('HSET', H, 's' .. sid, struct.pack('>I6I7I4I6I7i6', s.till, s.generation, s.marks, s.ttl, s.reclaimed, s.declared))
end

-- A claim is an array:
local SID, SEQ, MODE, WEIGHT, LIMIT, REENTRY, RECORD, MIN, MAX, SINCE, COUNTER, MINEND, MAXEND, GENERATION, INC, NAME, KEPT =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17

-- The broken claims that a keep-alive reports, until they are withdrawn.
local function broken_of(sid) return call('HGET', H, 'k' .. sid) or '' end

local function id_of(e) return id_from(e[SID], e[SEQ]) end

-- A claim that must not be granted: '1' tombstoned, until no call of it can be on its way
-- any more, or 'x' spent, its grant has ended, until it is withdrawn. Then when it was
-- marked. The session counts its marks, but for those of an earlier session of the same
-- id: to take off one of these would hide another.
local function counted(s, raw) return struct.unpack('>I6', raw, 2) * 1000 >= s.generation end

-- expired reports whether no call of a claim that was tombstoned can arrive any more: after many
-- times what the network, and a server that stands still, keep one for.
local function expired(raw) return byte(raw) == $1 and now - struct.unpack('>I6', raw, 2) > 3600000 end

local function count(sid, s, n)
  s.marks = math.max(0, s.marks + n)
  put_session(sid, s)
end

local function mark(sid, id, kind)
  local s, raw = session(sid), call('HGET', H, 'b' .. id)
  if raw and kind == 'x' then kind = sub(raw, 1, 1) end
  call('HSET', H, 'b' .. id, kind .. struct.pack('>I6', now))
  if s and not (raw and counted(s, raw)) then count(sid, s, 1) end
end

local function unmark(sid, id, raw)
  local s = session(sid)
  call('HDEL', H, 'b' .. id)
  if s and counted(s, raw) then count(sid, s, -1) end
end

local function spend(g)
  if g[SID] ~= '' then mark(g[SID], id_of(g), 'x') end
end

-- lives reports whether a grant stands: its session lives, is the one it was granted
-- under, and has not reclaimed without it after a data loss.
local function lives(g)
  local s = session(g[SID])
  return s and s.generation == g[GENERATION] and (g[INC] == inc or s.reclaimed ~= inc)
end

-- waits reports whether a queued claim stands.
local function waits(e) return stands(e[SID], e[SEQ], e[GENERATION], e[INC]) end

-- look_again has a process that lives look at a lock after a time.
local function look_again(name, till) call('ZADD', K, 'GT', num(till), name) end

-- keep takes a grant from its session and keeps the lock taken until a time.
local function keep(g, till)
  g[SID], g[MAXEND], g[KEPT] = '', till, left(till)
  look_again(g[NAME], till)
end

-- bound moves the ends of a grant that were set while the clock was ahead to where they
-- would be if it were made now, and returns whether it did.
local function bound(g)
  local most = g[SID] == '' and tonumber(g[KEPT]) or g[SID] ~= '' and g[MAX] > 0 and g[MAX]
  local changed = false
  if g[MINEND] > after(g[MIN]) then g[MINEND], changed = after(g[MIN]), true end
  if most and g[MAXEND] > after(most) then g[MAXEND], changed = after(most), true end
  return changed
end

-- upheld reports whether a grant stands, and whether it was changed.
local function upheld(g)
  local changed = bound(g)
  if g[MAXEND] ~= 0 and now >= g[MAXEND] then
    spend(g)
    return false
  elseif g[SID] == '' or lives(g) then
    return true, changed
  elseif g[MINEND] > now then
    keep(g, g[MINEND])
    return true, true
  end
  return false
end

-- plain reports whether a claim has a short form. One with more elements, which a later
-- version wrote, has none: they would be lost.
local function plain(e)
  return #e == NAME and e[SID] ~= '' and e[MODE] == 0 and e[WEIGHT] == 1 and e[LIMIT] == 0 and e[REENTRY] == '' and e[MIN] == 0
    and e[MAX] == 0 and e[MAXEND] == 0
end

local function shorten(e, letter)
  return letter .. struct.pack('>I6', e[SINCE]) .. e[SID] .. struct.pack('>I6I7I7', e[SEQ], e[GENERATION], e[INC]) .. e[RECORD]
end

-- id_in is the id of the claim in an element that is queued, or an X or G.
local function id_in(raw)
  if byte(raw) == $C then return id_of(cmsgpack.unpack(sub(raw, 2))) end
  return sub(raw, $ID)
end

-- claim_of reads an element that is queued, or an X or G.
local function claim_of(raw, name)
  if byte(raw) == $C then return cmsgpack.unpack(sub(raw, 2)) end
  local sid, seq, generation, of = short(raw)
  return { sid, seq, 0, 1, 0, '', sub(raw, $RECORD), 0, 0, (struct.unpack('>I6', raw, $SINCE)), 0, 0, 0, generation, of, name }
end

local function queued(e)
  return plain(e) and shorten(e, 'Q') or 'C' .. cmsgpack.pack(e)
end
