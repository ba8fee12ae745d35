-- Ends a session, then removes what it had, one lock a call (S5). The session goes
-- first: nothing must be granted to it any more.
-- ARGV[9] session id, [10] seq, [11] name, or ''
local sid, name = ARGV[9], ARGV[11]
if forgotten() then return { 'FORGOTTEN' } end
redis.call('HDEL', H, 's' .. sid, 'k' .. sid)
sessions[sid] = false
if name ~= '' then
  local id = sid .. ARGV[10]
  redis.call('HDEL', H, 'b' .. id)
  in_line(name, id)
  settle(name)
end
return { 'OK' }
