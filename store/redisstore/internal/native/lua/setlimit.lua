-- Stores the limit of a name, 0 removes it (L3).
-- ARGV[6] name, [7] limit
-- Replies: OK, 1 if dead claims are left in front of the queue
local name = ARGV[6]
if ARGV[7] == '0' then
  call('HDEL', H, 'n' .. name)
else
  call('HSET', H, 'n' .. name, ARGV[7])
end
refresh(name)
return { 'OK', stopped and 1 or 0 }
