-- Opens a session or resumes it (S1, S6). After a data loss it resumes with
-- no queued claims; its grants from before wait to be reclaimed.
-- ARGV[6] session id, [7] ttl in ms, [8] the max_ttl in ms that the process declares, negative if it asks for no grace
-- Replies: OK, incarnation, rest of grace in ms, broken claims, run id, generation, clock in µs, 1 if it was not open before,
-- 1 if there is grace, max_ttl in ms
local sid, ttl = ARGV[6], tonumber(ARGV[7])
local s = session(sid)
local generation, reclaimed, marks = micros, inc, 0
if s then
  generation, reclaimed, marks = s[2], s[3], s[5]
else
  call('HDEL', H, 'k' .. sid) -- of an earlier session of this id
end
put_session(sid, { after(ttl), generation, reclaimed, ttl, marks, tonumber(ARGV[8]) })
call('ZADD', Z, num(after(ttl)), sid)
refill()
return { 'OK', num(inc), num(grace()), broken_of(sid), run, num(generation), num(micros), s and 0 or 1, this.grace and 1 or 0, num(this.max) }
