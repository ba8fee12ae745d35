-- Opens a session or resumes it (S1, S6). After a loss of memory it resumes with
-- nothing in line; its grants from before wait to be reclaimed.
-- ARGV[9] session id, [10] ttl in ms
-- Replies: OK, incarnation, rest of grace in ms, broken claims, run id, epoch, marker,
-- end of grace in ms, clock in µs
local sid, ttl = ARGV[9], tonumber(ARGV[10])
local s = session(sid)
local epoch, reclaimed = micros, inc
if s then
  epoch, reclaimed = s[2], s[3]
else
  redis.call('HDEL', H, 'k' .. sid) -- of an earlier session of this id
end
put_session(sid, { after(ttl), epoch, reclaimed, ttl })
return { 'OK', num(inc), num(grace()), redis.call('HGET', H, 'k' .. sid) or '', M[1], num(epoch), redis.call('HGET', H, 'm'), num(M[3]), num(micros) }
