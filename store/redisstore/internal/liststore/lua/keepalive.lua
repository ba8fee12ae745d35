-- Keeps a session alive (S2, S4, R1).
-- ARGV[6] session id, [7] and [8] as renew.lua has it
-- Replies: OK, broken claims, clock in µs | GONE | RESET
if was_reset() then return { 'RESET' } end
local sid = ARGV[6]
local s = session(sid)
if not s then return { 'GONE' } end
s[1] = after(s[4])
put_session(sid, s)
return { 'OK', broken_of(sid), num(micros) }
