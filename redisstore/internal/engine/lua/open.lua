-- Opens a session or resumes it (S1, S6). After a loss of memory it resumes with
-- nothing in line; its grants from before wait to be reclaimed.
-- ARGV[6] session id, [7] ttl in ms
-- Replies: OK, incarnation, rest of grace in ms, broken claims, run id, epoch, end of
-- grace in ms, clock in µs
local sid, ttl = ARGV[6], tonumber(ARGV[7])
local s = session(sid)
local epoch, reclaimed, marks = micros, inc, 0
if s then
  epoch, reclaimed, marks = s[2], s[3], s[5]
else
  redis.call('HDEL', H, 'k' .. sid) -- of an earlier session of this id
end
put_session(sid, { after(ttl), epoch, reclaimed, ttl, marks })
return { 'OK', num(inc), num(grace()), redis.call('HGET', H, 'k' .. sid) or '', run, num(epoch), num(grace_end), num(micros) }
