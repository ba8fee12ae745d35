-- Stores the limit of a name, 0 removes it (L3).
-- ARGV[6] name, [7] limit
local name = ARGV[6]
if ARGV[7] == '0' then
  redis.call('HDEL', H, 'n' .. name)
else
  redis.call('HSET', H, 'n' .. name, ARGV[7])
end
settle(name)
return { 'OK' }
