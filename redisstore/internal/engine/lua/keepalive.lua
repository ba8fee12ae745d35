-- Keeps a session alive (S2, S4, R1).
-- ARGV[6] session id
-- Replies: OK, broken claims | GONE | FORGOTTEN
if forgotten() then return { 'FORGOTTEN' } end
local sid = ARGV[6]
local s = session(sid)
if not s then return { 'GONE' } end
s[1] = after(s[4])
put_session(sid, s)
return { 'OK', redis.call('HGET', H, 'k' .. sid) or '' }
