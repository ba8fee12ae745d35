-- Drops the tombstones of claims of which no call can arrive any more. Plain commands that arrived
-- behind a tombstone left the claim in its list, where it would hold the lock without: it is removed first.
-- ARGV[6] session id, then two for each claim: seq, name
-- Replies: OK ; GONE ; RESET
if was_reset() then return { 'RESET' } end
if not session(ARGV[6]) then return { 'GONE' } end
for i = 7, #ARGV, 2 do
  local id = id_from(ARGV[6], tonumber(ARGV[i]))
  local raw = call('HGET', H, 'b' .. id)
  if raw and expired(raw) then
    local k = refresh(ARGV[i + 1])
    local at, ticket, element = seek(k, id, '')
    while at do
      unqueue(k, ticket, element)
      at, ticket, element = seek(k, id, '')
    end
    unmark(ARGV[6], id, raw)
  end
end
return { 'OK' }
