-- Many attempts and withdrawals of one session in one call. Simple operations, on a lock
-- that is free and has no queue, are done here together, with a handful of commands.
-- Then come the plain handoffs: queueing behind a plain holder, and passing the lock to a
-- plain claim. The rest goes through the scripts that are included below, which can do
-- everything.
--
-- KEYS[1]  the bucket
-- ARGV[1]  settings, incarnation, PUBLISH or SPUBLISH, grace in ms, each ended by \0
-- ARGV[2]  session id, [3] its generation and incarnation, 7 bytes each
-- ARGV[4]  end of grace in ms, [5] record of the first attempt
-- ARGV[6]  the seq of each operation, 6 bytes each
-- ARGV[7]  a letter for each operation: W withdraw, all of these first and of different
--          claims; A or T attempt, with or without queueing
-- ARGV[8]  the floor of the counter of each operation, 7 bytes each, or 0; empty if there
--          are no floors
-- ARGV[9]  and after: the name of each operation; no two attempts have the same name. If
--          records differ, then a byte for each operation, the number of its record or 0
--          for that of ARGV[5]; then the records, from number 1 on
-- Replies: for one simple operation, the counter of its grant, or 0 for a withdrawal.
-- Otherwise: the counter of the first simple grant, the other simple grants have the next
-- counters; then, for each operation that was not simple, its number and the reply of
-- attempt.lua or withdraw.lua, or
--   WAITING, claims ahead, ms until the grant's session ends, age of the grant in ms, the
--   grant in its short form
local H = KEYS[1]
local call, sub, byte, pack = redis.call, string.sub, string.byte, struct.pack -- saves a lookup each time
local sid, tail, record, seqs, ops, floors = ARGV[2], ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

-- Simple operations come first, and functions are created where they are first needed:
-- creating one costs as much as a command.

local held -- the value of l<name>, if there is one operation
local found, fields
if RUN_ID == '' then
  found = {}
elseif ops == 'W' then
  -- Withdrawing the session's grant, in the short form and without waiters, needs no other
  -- check: while the grant is there no other claim has the lock.
  held = call('HGET', H, 'l' .. ARGV[9])
  if held and byte(held) == 88 and sub(held, 15, 36) == sid .. seqs then
    call('HDEL', H, 'l' .. ARGV[9])
    return 0
  end
  found = call('HMGET', H, 'm', 's' .. sid, 'q' .. ARGV[9])
elseif #ops == 1 then
  found = call('HMGET', H, 'm', 's' .. sid, 'l' .. ARGV[9])
  held = found[3]
else
  fields = { 'm', 's' .. sid }
  for i = 1, #ops do fields[i + 2] = 'l' .. ARGV[8 + i] end
  found = call('HMGET', H, unpack(fields))
end

-- A simple grant needs more checks: the server has the run id and the incarnation in
-- which the session was opened, the session was not closed and has not ended, and there
-- is no grace. now is the time if all of them pass, else false. marked is set if a claim
-- of the session is tombstoned, so that each attempt must be checked; voted is set if
-- there are counters of slots.
local now, marked, voted = false, false, false
local marker, session = found[1], found[2]
if marker and session and sub(marker, 1, 7) == sub(tail, 8, 14) and sub(session, 7, 13) == sub(tail, 1, 7) then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  if struct.unpack('>I6', session) <= now or now < tonumber(ARGV[4]) then now = false end
  marked = byte(session, 14) ~= 0
  voted = now and byte(marker, 8) == 1
end
local plain = now and not voted and floors == ''

local tombstoned = {}
if #ops == 1 and ops ~= 'W' then
  if marked and call('HEXISTS', H, 'b' .. sid .. seqs) == 1 then
    tombstoned[1] = true
  elseif plain and not held then
    local counter = call('HINCRBY', H, 'c', 1)
    call('HSET', H, 'l' .. ARGV[9], 'X' .. pack('>I7I6', counter, now) .. sid .. seqs .. tail .. record)
    return counter
  end
end

-- Find the simple operations, and the fields to write for them.
local others = ARGV[9 + #ops] -- nil if there is one record
local rest, drops, grants = {}, {}, {}
local withdrawals = (string.find(ops, '[AT]') or #ops + 1) - 1
if RUN_ID == '' or #ops == 1 then
  for i = 1, #ops do rest[i] = i end
else
  for i = 1, withdrawals do
    local held = found[i + 2]
    if held and byte(held) == 88 and sub(held, 15, 30) == sid and sub(held, 31, 36) == sub(seqs, 6 * i - 5, 6 * i) then
      drops[#drops + 1] = fields[i + 2]
    else
      rest[#rest + 1] = i
    end
  end
  if marked and withdrawals < #ops then
    local marks = {}
    for i = withdrawals + 1, #ops do marks[i - withdrawals] = 'b' .. sid .. sub(seqs, 6 * i - 5, 6 * i) end
    marks = call('HMGET', H, unpack(marks))
    for i = withdrawals + 1, #ops do tombstoned[i] = marks[i - withdrawals] end
  end
  local n = 0
  for i = withdrawals + 1, #ops do
    if plain and not found[i + 2] and not tombstoned[i] then
      grants[n + 1], grants[n + 2] = fields[i + 2], i
      n = n + 2
    else
      rest[#rest + 1] = i
    end
  end
end

if #drops > 0 then call('HDEL', H, unpack(drops)) end
local reply = { 0 }
if #grants > 0 then
  local n, head = #grants / 2, pack('>I6', now) .. sid
  local counter = call('HINCRBY', H, 'c', n) - n
  reply[1] = counter + 1
  for k = 2, 2 * n, 2 do
    local i = grants[k]
    local own = others and byte(others, i) or 0
    counter = counter + 1
    grants[k] = 'X' .. pack('>I7', counter) .. head .. sub(seqs, 6 * i - 5, 6 * i) .. tail .. (own == 0 and record or ARGV[9 + #ops + own])
  end
  call('HSET', H, unpack(grants))
end

for _, i in ipairs(rest) do
  local op, name, seq, record = sub(ops, i, i), ARGV[8 + i], sub(seqs, 6 * i - 5, 6 * i), record
  local id, short, own, counters = sid .. seq, nil, nil, nil
  if others and byte(others, i) > 0 then record = ARGV[9 + #ops + byte(others, i)] end
  if #ops > 1 then held = nil end
  if voted then
--@include slot
    own = slot(name)
    counters = call('HMGET', H, own, 'c', 'l' .. name)
  end

  repeat -- once; break is the slow path
    if not now or tombstoned[i] then break end
    if op == 'W' then
      -- Withdraw a plain grant and pass the lock to the first in the queue, if that is a plain
      -- claim of this incarnation, of a session that has not ended.
      held = held or call('HGET', H, 'l' .. name)
      if not held or byte(held) ~= 89 or sub(held, 15, 36) ~= id then break end
      local queue = #ops == 1 and found[3] or call('HGET', H, 'q' .. name)
      if not queue then break end
      local first, last, taken = struct.unpack('>I6I6I6', queue)
      local places = 'w' .. name .. '\0'
      local front = places .. sub(queue, 1, 6)
      local claim = call('HGET', H, front)
      if not claim or byte(claim) ~= 88 or sub(claim, 44, 50) ~= sub(tail, 8, 14) then break end
      local whose, next = sub(claim, 15, 30), sub(claim, 15, 36)
      local s = call('HGET', H, 's' .. whose)
      if not s or sub(s, 7, 13) ~= sub(claim, 37, 43) or struct.unpack('>I6', s) <= now then break end
      local counter
      if counters and counters[1] then -- as tick of lib.lua does
        counter = math.max(tonumber(counters[1]), tonumber(counters[2])) + 1
        call('HSET', H, own, string.format('%.0f', counter))
      else
        counter = call('HINCRBY', H, 'c', 1)
      end
      local grant = pack('>I7I6', counter, now) .. sub(claim, 15)
      if taken == 1 then
        call('HDEL', H, front, 'i' .. next, 'q' .. name)
        call('HSET', H, 'l' .. name, 'X' .. grant)
      else
        call('HDEL', H, front, 'i' .. next)
        repeat first = first + 1 until first >= last or call('HEXISTS', H, places .. pack('>I6', first)) == 1
        call('HSET', H, 'l' .. name, 'Y' .. grant, 'q' .. name, pack('>I6I6I6', first, last, taken - 1) .. sub(queue, 19))
        if first >= last then call('HDEL', H, 'q' .. name) end -- as leave of queue.lua does
      end
      local _, _, publish = struct.unpack('sss', ARGV[1])
      call(publish, H .. ':p:' .. whose, sub(claim, 31, 36) .. pack('>I7', counter))
      short = { 'OK', 2, 0 }
    elseif voted then
      -- Grant a free lock of a name that is voted about. The first vote of all takes the
      -- slow path, which notes in the marker that there are counters of slots.
      if counters[3] then break end
      local floor = floors == '' and 0 or struct.unpack('>I7', floors, 7 * i - 6)
      local counter = math.max(tonumber(counters[1] or '0'), tonumber(counters[2])) + 1
      if floor > counter then counter = floor end
      local text = string.format('%.0f', counter)
      call('HSET', H, (counters[1] or floor > 0) and own or 'c', text,
        'l' .. name, 'X' .. pack('>I7I6', counter, now) .. id .. tail .. record)
      short = { 'GRANTED', text, '0' }
    elseif op == 'A' and floors == '' then
      -- Queue behind a plain holder whose claim is of this incarnation and whose
      -- session has not ended.
      held = held or call('HGET', H, 'l' .. name)
      if not held or byte(held) < 88 or byte(held) > 89 or sub(held, 15, 36) == id or sub(held, 44, 50) ~= sub(tail, 8, 14) then break end
      local f = call('HMGET', H, 's' .. sub(held, 15, 30), 'i' .. id, 'q' .. name)
      if f[2] or not f[1] or sub(f[1], 7, 13) ~= sub(held, 37, 43) then break end
      local till = struct.unpack('>I6', f[1])
      if till <= now then break end
      local first, last, taken, moved = 0, 0, 0, ''
      if f[3] then
        first, last, taken = struct.unpack('>I6I6I6', f[3])
        moved = sub(f[3], 19)
      end
      local place = pack('>I6', last)
      call('HSET', H, 'w' .. name .. '\0' .. place, 'X\0\0\0\0\0\0\0' .. pack('>I6', now) .. id .. tail .. record, 'i' .. id, place,
        'q' .. name, pack('>I6I6I6', first, last + 1, taken + 1) .. moved, 'l' .. name, 'Y' .. sub(held, 2))
      short = { 'WAITING', taken, till - now - 1, math.max(0, now - struct.unpack('>I6', held, 9)), held }
    end
  until true

  if not short then
--@include slot
    local function attempt(ARGV)
--@include lib queue attempt
    end
    local function withdraw(ARGV)
--@include lib queue withdraw
    end
    local settings, incarnation, publish, grace = struct.unpack('ssss', ARGV[1])
    local number = string.format('%.0f', struct.unpack('>I6', seq))
    if op == 'W' then
      short = withdraw({ settings, incarnation, H .. ':p:', publish, grace, sid, number, name, '0', '0' })
    else
      local floor = floors == '' and '0' or string.format('%.0f', struct.unpack('>I7', floors, 7 * i - 6))
      short = attempt({ settings, incarnation, H .. ':p:', publish, grace, sid, number, name, '0', '1', '0', '', record, '0', '0',
        op == 'A' and '1' or '0', floor, '0' })
    end
  end
  reply[#reply + 1] = i
  reply[#reply + 1] = short
end
return reply
