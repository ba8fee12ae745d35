-- Who holds and who waits (I1, I2).
-- ARGV[6] name, [7] how many waiters to show
-- Replies: OK, holders, waiters, number in line, stored limit, rest of grace in ms
local name = ARGV[6]
local holders, waiters = {}, {}
for _, g in ipairs(settle(name)) do holders[#holders + 1] = shown(g) end
local first, last = bounds(name)
local waiting, most = 0, tonumber(ARGV[7])
for place = first, last - 1 do
  local e = waiter(name, place)
  if e and stands(e) then
    waiting = waiting + 1
    if waiting <= most then
      waiters[waiting] = { e[SID], num(e[SEQ]), e[MODE], num(e[WEIGHT]), e[RECORD], num(now - e[SINCE]) }
    end
  end
end
return { 'OK', holders, waiters, waiting, redis.call('HGET', H, 'n' .. name) or '0', num(grace()) }
