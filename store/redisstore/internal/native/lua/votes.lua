-- Grants and removes plain claims that several servers vote about, many in one call, if that is
-- all there is to do: a lock that is granted is free, and a lock that is released has one plain
-- holder and no queue. attempt.lua and withdraw.lua do the rest. It is called only under the
-- run id under which the session was opened.
--
-- KEYS[1]  the bucket, H; [2] a key that never exists (lib.lua); then the list of each operation, those that
--          are released first
-- ARGV[1]  session id, [2] its generation and incarnation, 7 bytes each
-- ARGV[3]  how many operations are releases
-- ARGV[4]  the seq of each operation, 6 bytes each
-- ARGV[5]  of each claim the counter not to fall below, 7 bytes each, [6] its slot, a byte each
--          (slot.lua)
-- ARGV[7]  the record of the first claim; if records differ, then those of the others
-- Replies: for each operation 0 if it was not done, else 1 for a release, and for a claim its
-- number
local H, sid, tail, seqs, releases = KEYS[1], ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[3])
local call, sub, byte = redis.call, string.sub, string.byte
-- A key that is not a list must not break off the other operations: its own gets the error later.
local try = redis.pcall
local reply = {}
for i = 1, releases do
  -- While the grant is there no other claim has the lock, so nothing else has to be checked.
  local list = KEYS[2 + i]
  local all = try('LPOP', list, 3)
  if all and #all == 2 and byte(all[2]) == 71 and sub(all[2], 8, 29) == sid .. sub(seqs, 6 * i - 5, 6 * i) then -- G
    reply[i] = 1
  else
    reply[i] = 0
    for k = all and #all or 0, 1, -1 do call('LPUSH', list, all[k]) end
  end
end
local n = #ARGV[6]
if n == 0 then return reply end

local fields = { 'm', 's' .. sid, 'v' }
for i = 1, n do
  fields[3 + i], reply[releases + i] = 'c' .. byte(ARGV[6], i), 0
end
local found = call('HMGET', H, unpack(fields))
local m, s = found[1], found[2]
-- Before the first vote there may be tickets, and claims that plain commands pushed.
if not m or not s or sub(m, 1, 7) ~= sub(tail, 8) or byte(m, 8) ~= 1 or sub(s, 7, 13) ~= sub(tail, 1, 7) then return reply end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if not checked(m, now) or struct.unpack('>I6', s) <= now or now < struct.unpack('>I6', m, 22) then return reply end
local marks = {}
if byte(s, 14) ~= 0 then
  for i = 1, n do marks[i] = 'b' .. sid .. sub(seqs, 6 * (releases + i) - 5, 6 * (releases + i)) end
  marks = call('HMGET', H, unpack(marks))
end

local head, issued, counters, sets = 'G' .. struct.pack('>I6', now) .. sid, tonumber(found[3]), {}, {}
for i = 1, n do
  local at, slot = releases + i, fields[3 + i]
  local number = math.max(counters[slot] or tonumber(found[3 + i] or '0'), issued) + 1
  local floor = struct.unpack('>I7', ARGV[5], 7 * i - 6)
  if floor > number then number = floor end
  if not marks[i] then
    local list, text = KEYS[2 + at], string.format('%.0f', number)
    local claim = head .. sub(seqs, 6 * at - 5, 6 * at) .. tail .. (ARGV[6 + i] or ARGV[7])
    local length = try('RPUSH', list, text, claim)
    if length == 2 then
      counters[slot], reply[at] = number, number
      sets[#sets + 1] = slot
      sets[#sets + 1] = text
    elseif type(length) == 'number' then -- it is not free
      call('LREM', list, -1, claim)
      call('LREM', list, -1, text)
    end
  end
end
if #sets > 0 then call('HSET', H, unpack(sets)) end
return reply
