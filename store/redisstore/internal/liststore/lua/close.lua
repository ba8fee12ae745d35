-- Ends a session, then removes what it had (S5). The session goes first: nothing must
-- be granted to it any more.
-- ARGV[6] session id, then three for each claim: seq, name, its element if known, else ''
-- Replies: OK, 1 if dead claims are left in front of a queue ; RESET
local sid = ARGV[6]
if was_reset() then return { 'RESET' } end
call('HDEL', H, 's' .. sid, 'k' .. sid)
call('ZREM', Z, sid)
sessions[sid] = false
for i = 7, #ARGV, 3 do
  local id, name = id_from(sid, tonumber(ARGV[i])), ARGV[i + 1]
  call('HDEL', H, 'b' .. id)
  local k = refresh(name)
  local g = k.form == 'S' and find(k, sid, tonumber(ARGV[i]))
  if g then
    if upheld(g) then put(k, g) else remove(k, g) end
    promote(k)
  end
  local at, ticket, raw = seek(k, id, ARGV[i + 2])
  if at then
    unqueue(k, ticket, raw)
    promote(k)
  end
end
return { 'OK', stopped and 1 or 0 }
