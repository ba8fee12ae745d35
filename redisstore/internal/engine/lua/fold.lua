-- Many attempts and withdrawals of one session in one call. What is simple, a lock
-- that is free and nobody's turn, is done here, all of it together, with a handful of
-- commands. Then come the plain hand-overs: getting in line behind a plain holder, and
-- passing the lock to a plain claim. The rest goes through the scripts that are
-- included below, which can do everything.
--
-- KEYS[1]  the bucket
-- ARGV[1]  settings, incarnation, PUBLISH or SPUBLISH, grace in ms, each ended by \0
-- ARGV[2]  session id, [3] its epoch and incarnation, 7 bytes each
-- ARGV[4]  end of grace in ms, [5] record of all attempts
-- ARGV[6]  the seq of each operation, 6 bytes each
-- ARGV[7]  a letter for each operation: W withdraw, all of these first; A or T attempt,
--          in line or not
-- ARGV[8]  and after: the name of each operation
-- Replies: the counter of the first simple grant, those of the others follow one by
-- one; then, for each operation that was not simple, its number and the reply as
-- attempt.lua or withdraw.lua has it, or
--   WAITING, place, end of the grant's session in ms, age of the grant in ms, the grant in its short form
local H = KEYS[1]

local function attempt(ARGV)
--@include lib attempt
end

local function withdraw(ARGV)
--@include lib withdraw
end

local call, sub, byte, pack = redis.call, string.sub, string.byte, struct.pack -- a look-up less each time
local sid, tail, record, seqs, ops = ARGV[2], ARGV[3], ARGV[5], ARGV[6], ARGV[7]

-- Simple is what needs three things to be sure: that this is the life of the server
-- in which the session was opened, that the incarnation is still the one of then,
-- and that the session was not closed.
local function simple(marker, session)
  return marker and session and sub(marker, 1, 7) == sub(tail, 8, 14)
    and sub(session, 7, 13) == sub(tail, 1, 7)
end

-- A grant besides needs a session that has not ended, and no grace: granting returns
-- the time if so. To withdraw one's own grant needs neither: while it is there nobody
-- else has the lock.
local function granting(session)
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  return struct.unpack('>I6', session) > now and now >= tonumber(ARGV[4]) and now
end

local sure, now = false, nil

-- One alone is the most frequent, and a third cheaper without the tables below.
if LIFE ~= '' and #ops == 1 then
  local name = ARGV[8]
  if ops == 'W' then
    local f = call('HMGET', H, 'm', 's' .. sid, 'l' .. name)
    sure = simple(f[1], f[2])
    if sure and f[3] and byte(f[3]) == 88 and sub(f[3], 15, 36) == sid .. seqs then
      call('HDEL', H, 'l' .. name)
      return { 0 }
    end
    now = sure and granting(f[2])
  else
    local f = call('HMGET', H, 'm', 's' .. sid, 'l' .. name, 'b' .. sid .. seqs)
    sure = simple(f[1], f[2])
    now = sure and granting(f[2])
    if now and not (f[3] or f[4]) then
      local counter = call('HINCRBY', H, 'c', 1)
      call('HSET', H, 'l' .. name, 'X' .. pack('>I7I6', counter, now) .. sid .. seqs .. tail .. record)
      return { counter }
    end
  end
end

local function seq_of(i) return sub(seqs, 6 * i - 5, 6 * i) end

-- stands says whether a plain claim counts: its session is there, has not ended, and
-- the claim is of that session and of this incarnation.
local function stands(claim)
  local s = call('HGET', H, 's' .. sub(claim, 15, 30))
  return s and sub(s, 7, 13) == sub(claim, 37, 43) and sub(claim, 44, 50) == sub(tail, 8, 14) and struct.unpack('>I6', s)
end

-- join gets in line behind a plain holder.
local function join(i)
  local name, id = ARGV[7 + i], sid .. seq_of(i)
  local f = call('HMGET', H, 'l' .. name, 'b' .. id, 'i' .. id, 'q' .. name)
  local held = f[1]
  if not held or f[2] or f[3] or byte(held) < 88 or byte(held) > 89 or sub(held, 15, 36) == id then return nil end
  local till = stands(held)
  if not till or till <= now then return nil end
  local first, last, taken = 0, 0, 0
  if f[4] then first, last, taken = struct.unpack('>I6I6I6', f[4]) end
  local place, since = pack('>I6', last), pack('>I6', now)
  call('HSET', H, 'w' .. name .. '\0' .. place, 'X\0\0\0\0\0\0\0' .. since .. id .. tail .. record, 'i' .. id, place,
    'q' .. name, pack('>I6I6I6', first, last + 1, taken + 1), 'l' .. name, 'Y' .. sub(held, 2))
  return { 'WAITING', taken, till - now - 1, now - struct.unpack('>I6', held, 9), held }
end

-- pass withdraws a plain grant and gives the lock to the first in line, if that is a
-- plain claim of a session that lives.
local function pass(i)
  local name = ARGV[7 + i]
  local f = call('HMGET', H, 'l' .. name, 'q' .. name)
  local held = f[1]
  if not held or not f[2] or byte(held) ~= 89 or sub(held, 15, 36) ~= sid .. seq_of(i) then return nil end
  local first, last, taken = struct.unpack('>I6I6I6', f[2])
  local front = 'w' .. name .. '\0'
  local claim = call('HGET', H, front .. pack('>I6', first))
  local till = claim and byte(claim) == 88 and stands(claim)
  if not till or till <= now then return nil end
  local counter = call('HINCRBY', H, 'c', 1)
  local grant, id = pack('>I7I6', counter, now) .. sub(claim, 15), sub(claim, 15, 36)
  if taken == 1 then
    call('HDEL', H, front .. pack('>I6', first), 'i' .. id, 'q' .. name)
    call('HSET', H, 'l' .. name, 'X' .. grant)
  else
    call('HDEL', H, front .. pack('>I6', first), 'i' .. id)
    repeat first = first + 1 until call('HEXISTS', H, front .. pack('>I6', first)) == 1
    call('HSET', H, 'l' .. name, 'Y' .. grant, 'q' .. name, pack('>I6I6I6', first, last, taken - 1))
  end
  local _, _, publish = struct.unpack('sss', ARGV[1])
  call(publish, H .. ':p:' .. sub(claim, 15, 30), sub(claim, 31, 36) .. pack('>I7', counter))
  return { 'OK', 2 }
end

local function slow(i)
  local settings, incarnation, publish, grace = struct.unpack('ssss', ARGV[1])
  local seq, name, op = string.format('%.0f', struct.unpack('>I6', seq_of(i))), ARGV[7 + i], sub(ops, i, i)
  if op == 'W' then
    return withdraw({ settings, incarnation, H .. ':p:', publish, grace, sid, seq, name, '0', '0' })
  end
  return attempt({ settings, incarnation, H .. ':p:', publish, grace, sid, seq, name, '0', '1', '0', '', record, '0', '0',
    op == 'A' and '1' or '0' })
end

-- Which of them are simple, and the fields to write for these. A name that comes
-- twice is simple once: the second must see what the first did.
local rest, drops, grants, touched = {}, {}, {}, {}
local withdrawals = (string.find(ops, '[AT]') or #ops + 1) - 1
if LIFE == '' or #ops == 1 then
  for i = 1, #ops do rest[i] = i end
else
  local fields, k = { 'm', 's' .. sid }, 2 + withdrawals
  for i = 1, withdrawals do fields[2 + i] = 'l' .. ARGV[7 + i] end
  for i = withdrawals + 1, #ops do
    fields[k + 1], fields[k + 2] = 'l' .. ARGV[7 + i], 'b' .. sid .. seq_of(i)
    k = k + 2
  end
  local found = call('HMGET', H, unpack(fields))
  sure = simple(found[1], found[2])
  now = sure and granting(found[2])
  for i = 1, withdrawals do
    local held, field = found[2 + i], fields[2 + i]
    if sure and held and not touched[field] and byte(held) == 88 and sub(held, 15, 36) == sid .. seq_of(i) then
      drops[#drops + 1], touched[field] = field, true
    else
      rest[#rest + 1] = i
    end
  end
  local head, n = now and pack('>I6', now) .. sid, 0
  k = 2 + withdrawals
  for i = withdrawals + 1, #ops do
    local field = fields[k + 1]
    if now and not (found[k + 1] or found[k + 2] or touched[field]) then
      grants[n + 1], grants[n + 2], touched[field] = field, head .. seq_of(i) .. tail .. record, true
      n = n + 2
    else
      rest[#rest + 1] = i
    end
    k = k + 2
  end
end

if #drops > 0 then call('HDEL', H, unpack(drops)) end
local reply = { 0 }
if #grants > 0 then
  local n = #grants / 2
  local before = call('HINCRBY', H, 'c', n) - n
  for i = 1, n do grants[2 * i] = 'X' .. pack('>I7', before + i) .. grants[2 * i] end
  call('HSET', H, unpack(grants))
  reply[1] = before + 1
end
for _, i in ipairs(rest) do
  local op, short = sub(ops, i, i), nil
  if now and op == 'W' then short = pass(i) elseif now and op == 'A' then short = join(i) end
  reply[#reply + 1] = i
  reply[#reply + 1] = short or slow(i)
end
return reply
