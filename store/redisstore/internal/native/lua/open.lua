-- Opens a session or resumes it (S1, S6). After a data loss it resumes with
-- no queued claims; its grants from before wait to be reclaimed.
-- ARGV sid ttl declared
--   ttl       in ms
--   declared  the max_ttl in ms that the process declares, negative if it asks for no grace
-- Replies: OK, incarnation, rest of grace in ms, broken claims, run id, generation, clock in µs, 1 if it was not open before,
-- 1 if there is grace, max_ttl in ms
local sid, ttl = $sid, tonumber($ttl)
local before = session(sid)
local s = before or { generation = micros, reclaimed = inc, marks = 0 }
if not before then call('HDEL', H, 'k' .. sid) end -- of an earlier session of this id
s.till, s.ttl, s.declared = after(ttl), ttl, tonumber($declared)
put_session(sid, s)
call('ZADD', Z, num(after(ttl)), sid)
refill()
return { 'OK', num(inc), num(grace()), broken_of(sid), run, num(s.generation), num(micros), before and 0 or 1, this.grace and 1 or 0, num(this.max) }
