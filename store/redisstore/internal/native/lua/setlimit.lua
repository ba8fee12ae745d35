-- Stores the limit of a name, 0 removes it (L3).
-- ARGV name limit
-- Replies: OK, 1 if dead claims are left in front of the queue
local name = $name
if $limit == '0' then
  call('HDEL', H, 'n' .. name)
else
  call('HSET', H, 'n' .. name, $limit)
end
refresh(name)
return { 'OK', stopped and 1 or 0 }
