-- Who holds and who waits, for some locks (I1, I2).
-- ARGV[6] how many waiters to show of each, [7] and after: names
-- Replies: OK, rest of grace in ms; for each: holders, waiters, number in line, stored
-- limit
local most, reply = tonumber(ARGV[6]), { 'OK', num(grace()) }
for i = 7, #ARGV do
  local name, holders, waiters = ARGV[i], {}, {}
  for _, g in ipairs(settle(name)) do holders[#holders + 1] = shown(g) end
  local first, last = bounds(name)
  local waiting = 0
  for place = first, last - 1 do
    local e = waiter(name, place)
    if e and stands(e) then
      waiting = waiting + 1
      if waiting <= most then
        waiters[waiting] = { e[SID], num(e[SEQ]), e[MODE], num(e[WEIGHT]), e[RECORD], num(now - e[SINCE]) }
      end
    end
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = holders, waiters, waiting, redis.call('HGET', H, 'n' .. name) or '0'
end
return reply
