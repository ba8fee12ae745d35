-- Keeps a session alive (S2, S4, R1).
-- ARGV[6] session id
-- Replies: OK, broken claims, clock in µs, 1 if a session ended without being closed | GONE | RESET
if was_reset() then return { 'RESET' } end
local sid = ARGV[6]
local s = session(sid)
if not s then return { 'GONE' } end
s[1] = after(s[4])
put_session(sid, s)
call('ZADD', Z, num(s[1]), sid)
return { 'OK', broken_of(sid), num(micros), #call('ZRANGEBYSCORE', Z, '-inf', num(now), 'LIMIT', 0, 1) }
