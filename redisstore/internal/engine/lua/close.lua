-- Ends a session, then removes what it had, one lock a call (S5). The session goes
-- first: nothing must be granted to it any more.
-- ARGV[6] session id, [7] seq, [8] name, or ''
local sid, name = ARGV[6], ARGV[8]
if forgotten() then return { 'FORGOTTEN' } end
redis.call('HDEL', H, 's' .. sid, 'k' .. sid)
sessions[sid] = false
if name ~= '' then
  local id = id_from(sid, tonumber(ARGV[7]))
  redis.call('HDEL', H, 'b' .. id)
  in_line(name, id)
  settle(name)
end
return { 'OK' }
