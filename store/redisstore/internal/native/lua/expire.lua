-- Drops the tombstones of claims of which no call can arrive any more. Plain commands that arrived
-- behind a tombstone left the claim in its list, where it would hold the lock without: it is removed first.
-- ARGV sid claims
--   claims  and after: two for each claim: seq, name
-- Replies: OK ; GONE ; RESET
if was_reset() then return { 'RESET' } end
if not session($sid) then return { 'GONE' } end
for i = @claims, #ARGV, 2 do
  local id = id_from($sid, tonumber(ARGV[i]))
  local raw = call('HGET', H, 'b' .. id)
  if raw and expired(raw) then
    local k = refresh(ARGV[i + 1])
    local at, ticket, element = seek(k, id, '')
    while at do
      unqueue(k, ticket, element)
      at, ticket, element = seek(k, id, '')
    end
    unmark($sid, id, raw)
  end
end
return { 'OK' }
