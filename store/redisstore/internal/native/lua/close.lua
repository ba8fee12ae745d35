-- Ends a session, then removes what it had (S5). The session goes first: nothing must
-- be granted to it any more. Its end stays in Z until its last claim is removed, as that of a session that has
-- ended by itself: if the last part does not come, the sweep finds the rest.
-- ARGV sid last claims
--   last    1 in the last part
--   claims  and after: three for each claim: seq, name, its element if known, else ''
-- Replies: OK, 1 if dead claims are left in front of a queue ; RESET
local sid = $sid
if was_reset() then return { 'RESET' } end
call('HDEL', H, 's' .. sid, 'k' .. sid, 'w' .. sid)
sessions[sid] = false
if $last ~= '1' then call('ZADD', Z, 'XX', num(now), sid) end
for i = @claims, #ARGV, 3 do
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
if $last == '1' and not stopped then call('ZREM', Z, sid) end
return { 'OK', stopped and 1 or 0 }
