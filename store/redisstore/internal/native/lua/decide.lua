-- The two decisions: who may hold a lock, and who may give it back. This part stands before every script. Those that
-- are called most often are done with it alone, most of the time (attempt.lua, withdraw.lua, batch.lua); the others, and the
-- rare cases of these, go on with lib.lua.
--
-- A claim is granted if all of this is true:
--
--   granting()   the server may grant at all: there is no grace period, and no other server was promoted in its place
--   stands(...)  the claim may hold: it belongs to a session that lives and sent it, in this incarnation, and has no mark
--   nothing holds the lock, or what holds it leaves room (fits in lock.lua), and no claim waits in front of it
--
-- Plain commands decide the same from replies (plain.go). A condition that is to be added belongs here and there, and nowhere else.
--
-- KEYS[1]  the bucket, H; KEYS[2] its tickets, T; then, for each name, its list L and, except in batch.lua, its
--          hash G; then a key that never exists, the names to look at later, K, and at last the ends
--          of its sessions, Z. All of them are declared, so a server that moves the slot rejects
--          the call as a whole (store.go, none)
-- RUN_ID   the run id of the server if this text is known to be loaded under that run
--          id only, else ''. Set before this part (proof.go)
local H, T, K, Z = KEYS[1], KEYS[2], KEYS[#KEYS - 1], KEYS[#KEYS]
local call, sub, byte = redis.call, string.sub, string.byte
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

local function num(x) return string.format('%.0f', x) end

-- this is the marker: inc, voted, till, grace, max, over. What lib.lua adds is behind them.
local this = { inc = 0, voted = false, till = 0, over = 0 }

-- head reads the fixed part of a marker, and returns where the rest begins.
local function head(raw)
  local inc, votes, till, grace, max, over, at = struct.unpack('>I7BI6BI6I6', raw)
  return { inc = inc, voted = votes == 1, till = till, grace = grace == 1, max = max, over = over }, at
end

-- checked reports whether the replication id in a marker was compared so lately that it counts. The end of a check
-- that was made while the clock was ahead does not count.
local function checked(m) return now < m.till and m.till <= now + 1000 end

-- granting reports whether the server may grant locks now.
local function granting() return this.over <= now and checked(this) end

local sessions = {}
local sure -- lib.lua: whether a session that is over by the clock is over. Without it nobody knows

-- read_session reads a session that lives. Keep-alives by plain commands move its end in Z only, so what is noted in H
-- may be over; then the other end is read, and noted for the next call. An end that was set while the clock was ahead is
-- moved back. It returns false for one that is over, and nil if that is not known.
local function read_session(sid, raw)
  if not raw then return false end
  local noted, generation, marks, ttl, reclaimed, declared = struct.unpack('>I6I7I4I6I7i6', raw)
  local till = noted
  if till <= now then till = tonumber(call('ZSCORE', Z, sid) or '0') end
  if till <= now then
    if not sure then return nil end
    if sure() then return false end
    till, noted = now + 1, now + 1
  elseif till > now + 1 + ttl then
    till = now + 1 + ttl
    call('ZADD', Z, 'XX', num(till), sid)
  end
  if till ~= noted then call('HSET', H, 's' .. sid, struct.pack('>I6', till) .. sub(raw, 7)) end
  return { till = till, generation = generation, marks = marks, ttl = ttl, reclaimed = reclaimed, declared = declared }
end

local function id_from(sid, seq) return sid .. struct.pack('>I6', seq) end

-- marked reports whether a claim of a session must not be granted, whatever pushed it.
local function marked(s, sid, seq) return s.marks > 0 and call('HEXISTS', H, 'b' .. id_from(sid, seq)) == 1 end

-- belongs reports whether a claim is of a session that lives and sent it in this incarnation. Claims of earlier
-- incarnations come again.
local function belongs(s, generation, inc) return s and s.generation == generation and inc == this.inc end

-- meet reads the marker and the session of the caller in one call. It returns whether its claims belong, and their generation and
-- incarnation, which are in tail.
local function meet(sid, tail)
  local generation, inc = struct.unpack('>I7I7', tail)
  local found = call('HMGET', H, 'm', 's' .. sid)
  if not found[1] then return false end
  this = head(found[1])
  local s = read_session(sid, found[2])
  sessions[sid] = s
  return belongs(s, generation, inc), generation, inc
end

-- give_back removes the holder of a lock, whose element the caller knows, if no claim waits. It returns whether it did; otherwise it has
-- done nothing. While the grant is there no other claim has the lock, so nothing else has to be checked. One command is enough
-- for nearly all locks, and what it took in vain is put back.
local function give_back(list, mine)
  local all = redis.pcall('LPOP', list, '3')
  if all and all[2] == mine and not all[3] then return true end
  for i = all and #all or 0, 1, -1 do call('LPUSH', list, all[i]) end
  return false
end

-- LIB
-- What follows is not in batch.lua: each function costs a script that does not need it.

-- after is the end of a duration that begins now: a millisecond late rather than
-- a part of one early.
local function after(ms) return now + 1 + ms end

-- session returns { till, generation, marks, ttl, reclaimed, declared } or nil if it has ended; marks is
-- how many of its claims are marked by b<id>. End, generation and marks stand first and in fixed places,
-- where plain.go finds them.
local function session(sid)
  local s = sessions[sid]
  if s == nil and sid ~= '' then
    s = read_session(sid, call('HGET', H, 's' .. sid))
    sessions[sid] = s
  end
  return s or nil
end

-- stands reports whether a claim may hold a lock as far as its session is concerned.
local function stands(sid, seq, generation, inc)
  local s = session(sid)
  return belongs(s, generation, inc) and not marked(s, sid, seq)
end

-- short reads what stands needs of a short claim (lib.lua).
local function short(raw)
  local sid, seq, generation, inc = struct.unpack('>c16I6I7I7', raw, $SID)
  return sid, seq, generation, inc
end

local function is_ticket(raw) local b = byte(raw) return b >= $0 and b <= $9 end

-- push notifies the process of a claim that it was granted: seq, number, and since if plain
-- commands may remove the grant.
local function push(channel, seq, number, since) call($publish, channel, struct.pack('>I6I7', seq, number) .. since) end

-- release gives a lock back whose holder the caller knows, and passes it to the first that waits, if that is a short claim. It
-- returns whether it did; otherwise it has done nothing. Only what
-- the next one needs is checked: its ticket must be above that of the holder. A claim that is queued is not a grant, even if it is the
-- first in the list: the one before it was removed by plain commands, or there is a grace period.
local function release(list, mine)
  local four = redis.pcall('LRANGE', list, '0', '3')
  local ticket, next = four[3], four[4]
  if four[2] ~= mine or not is_ticket(four[1]) then return false end
  if not ticket then return give_back(list, mine) end
  if not next or not is_ticket(ticket) or byte(next) ~= $Q or this.voted or tonumber(ticket) <= tonumber(four[1]) then return false end
  local sid, seq, generation, inc = short(next)
  if not (granting() and stands(sid, seq, generation, inc)) then return false end
  local since = struct.pack('>I6', now)
  call('LPOP', list, '2')
  call('LSET', list, '1', 'G' .. since .. sub(next, $SID))
  push($channel .. sid, seq, tonumber(ticket), since)
  return true
end
