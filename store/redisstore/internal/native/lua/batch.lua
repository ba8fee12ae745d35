-- Acquires locks that are free, and releases locks that no claim waits for, many in one call, for claims in their short form. What it leaves undone,
-- attempt.lua and withdraw.lua decide. It is called only under the run id under which the
-- session was opened. If several servers vote about the locks the numbers come from the counters of their slots, else they are tickets.
--
-- ARGV sid tail releases floors claims
--   tail      generation and incarnation of the session, 7 bytes each
--   releases  how many operations are releases; their lists and claims come first
--   floors    of each claim to acquire, if there are votes, the number not to fall below, 7 bytes each, else ''
--   claims    and after: the claim of each operation
-- Replies: for each operation, with spaces between, 0 if it was not done, else 1 for a release
-- and for an acquisition its number; then until when the marker counts, 0 if it was not read
local met = meet($sid, $tail) -- so all claims of the call belong
local s = sessions[$sid]
local releases, reply = tonumber($releases), {}
local n = #ARGV - @claims + 1 - releases
-- HSETNX changes nothing. A server whose memory is full rejects it, and would not reject what comes after the first write.
local acquires = n > 0 and met and granting() and this.voted == ($floors ~= '') and redis.pcall('HSETNX', H, 'm', '') == 0
for i = 1, releases do reply[i] = give_back(KEYS[2 + i], ARGV[@claims - 1 + i]) and '1' or '0' end

-- During a grace period, and once there are votes, there are no tickets.
local tickets, used = acquires and not this.voted and call('LPOP', T, tostring(n)) or {}, 0

-- The counters of the slots, by their fields, and the fields of the claims: all of them are read by one command, and
-- those that were raised are written by one.
local counters, fields, raised = {}, {}, {}
if acquires and this.voted then
  for i = 1, n do fields[i] = slot(sub(KEYS[2 + releases + i], #H + 4)) end
  local found = call('HMGET', H, 'v', unpack(fields))
  for i = 1, n do counters[fields[i]] = math.max(tonumber(found[i + 1] or '0'), tonumber(found[1])) end
end

-- acquire returns the number with which a claim is granted, nil if it is not.
local function acquire(i)
  local list, claim, field = KEYS[2 + releases + i], ARGV[@claims - 1 + releases + i], fields[i]
  if s.marks > 0 and marked(s, $sid, struct.unpack('>I6', claim, $SEQ)) then return nil end
  local number, counter = tickets[used + 1], nil
  if field then
    counter = math.max(counters[field] + 1, (struct.unpack('>I7', $floors, 7 * i - 6)))
    number = num(counter)
  end
  -- A key that is not a list must not break off the other operations: its own gets the error later.
  local length = number and redis.pcall('RPUSH', list, number, claim)
  if length == 2 then
    used = used + 1
    if field then
      counters[field], raised[#raised + 1], raised[#raised + 2] = counter, field, number
    end
    return number
  elseif type(length) == 'number' then -- it is not free
    call('LTRIM', list, '0', '-3')
  end
end

for i = 1, n do reply[releases + i] = acquires and acquire(i) or '0' end
if #raised > 0 then call('HSET', H, unpack(raised)) end
-- Each ticket must come to a process: some of them make it order more.
for k = #tickets, used + 1, -1 do call('LPUSH', T, tickets[k]) end
reply[#reply + 1] = num(this.till)
return table.concat(reply, ' ')
