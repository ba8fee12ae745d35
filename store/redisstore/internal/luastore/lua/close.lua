-- Ends a session, then removes what it had (S5). The session goes first: nothing must
-- be granted to it any more.
-- ARGV[6] session id, then two for each claim: seq, name
-- Replies: OK, 1 if dead claims are left in front of a queue ; RESET
local sid = ARGV[6]
if was_reset() then return { 'RESET' } end
redis.call('HDEL', H, 's' .. sid, 'k' .. sid)
sessions[sid] = false
for i = 7, #ARGV, 2 do
  local id, name = id_from(sid, tonumber(ARGV[i])), ARGV[i + 1]
  redis.call('HDEL', H, 'b' .. id)
  place_of(name, id)
  refresh(name)
end
return { 'OK', stopped and 1 or 0 }
