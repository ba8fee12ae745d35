-- Keeps a session alive (S2, S4, R1).
-- ARGV sid
-- Replies: OK, broken claims, clock in µs, how many sessions ended without being closed, how many names
-- are to be looked at, 1 if there is grace, max_ttl in ms | GONE | RESET
if was_reset() then return { 'RESET' } end
local sid = $sid
local s = session(sid)
if not s then return { 'GONE' } end
s.till = after(s.ttl)
put_session(sid, s)
call('ZADD', Z, num(s.till), sid)
return { 'OK', broken_of(sid), num(micros), call('ZCOUNT', Z, '-inf', num(now)), call('ZCOUNT', K, '-inf', num(now)),
  this.grace and 1 or 0, num(this.max) }
