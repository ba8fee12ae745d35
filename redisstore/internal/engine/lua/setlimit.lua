-- Stores the limit of a name, 0 removes it (L3).
-- ARGV[9] name, [10] limit
local name = ARGV[9]
if ARGV[10] == '0' then
  redis.call('HDEL', H, 'n' .. name)
else
  redis.call('HSET', H, 'n' .. name, ARGV[10])
end
settle(name)
return { 'OK' }
