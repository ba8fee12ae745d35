-- Acquires locks that are free, and releases locks that no claim waits for, many in one call:
-- what plain commands do for one (fast.go), under the same conditions. What it leaves undone,
-- attempt.lua and withdraw.lua decide. It is called only under the run id under which the
-- session was opened, and not while the server's memory is full.
--
-- KEYS[1]  the bucket, H; [2] its tickets, T; [3] a key that never exists (lib.lua); then the list of
--          each operation, those that are released first
-- ARGV[1]  the field of the session in H, [2] its generation and incarnation, 7 bytes each
-- ARGV[3]  how many operations are releases; then the claim of each operation
-- Replies: for each operation, with spaces between, 0 if it was not done, else 1 for a release
-- and for an acquisition its ticket; then until when the marker counts, 0 if it was not read
local H, T, tail, releases = KEYS[1], KEYS[2], ARGV[2], tonumber(ARGV[3])
local call, sub, byte = redis.call, string.sub, string.byte
-- A key that is not a list must not break off the other operations: its own gets the error later.
local try = redis.pcall
local reply, till = {}, 0
for i = 1, releases do
  -- While the grant is there no other claim has the lock, so nothing else has to be checked.
  local list = KEYS[3 + i]
  local all = try('LPOP', list, '3')
  if all and #all == 2 and all[2] == ARGV[3 + i] then
    reply[i] = '1'
  else
    reply[i] = '0'
    for k = all and #all or 0, 1, -1 do call('LPUSH', list, all[k]) end
  end
end
local n = #KEYS - 3 - releases
if n > 0 then
  for i = 1, n do reply[releases + i] = '0' end
  local found = call('HMGET', H, 'm', ARGV[1])
  local m, s = found[1], found[2]
  if m then till = struct.unpack('>I6', m, 9) end
  local t = redis.call('TIME')
  if m and s and sub(m, 1, 7) == sub(tail, 8) and byte(m, 8) == 0 and checked(m, t[1] * 1000 + math.floor(t[2] / 1000))
    and sub(s, 7, 13) == sub(tail, 1, 7) then
    local marks = {}
    if byte(s, 14) ~= 0 then
      for i = 1, n do marks[i] = 'b' .. sub(ARGV[3 + releases + i], 8, 29) end
      marks = call('HMGET', H, unpack(marks))
    end
    -- During a grace period, and once there are votes, there are no tickets.
    local tickets, used = call('LPOP', T, tostring(n)) or {}, 0
    for i = 1, n do
      local list, ticket = KEYS[3 + releases + i], tickets[used + 1]
      if not ticket then break end
      local length = not marks[i] and try('RPUSH', list, ticket, ARGV[3 + releases + i])
      if length == 2 then
        reply[releases + i], used = ticket, used + 1
      elseif type(length) == 'number' then -- it is not free
        call('LTRIM', list, '0', '-3')
      end
    end
    -- Each ticket must come to a process: some of them make it order more.
    for k = #tickets, used + 1, -1 do call('LPUSH', T, tickets[k]) end
  end
end
reply[#reply + 1] = string.format('%.0f', till)
return table.concat(reply, ' ')
