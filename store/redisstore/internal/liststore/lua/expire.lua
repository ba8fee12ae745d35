-- Drops the tombstones of claims of which no call can arrive any more.
-- ARGV[6] session id, [7] and after: seqs
-- Replies: OK ; GONE ; RESET
if was_reset() then return { 'RESET' } end
if not session(ARGV[6]) then return { 'GONE' } end
for i = 7, #ARGV do
  local id = id_from(ARGV[6], tonumber(ARGV[i]))
  local raw = call('HGET', H, 'b' .. id)
  if raw and expired(raw) then unmark(ARGV[6], id, raw) end
end
return { 'OK' }
