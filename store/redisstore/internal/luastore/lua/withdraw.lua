-- Removes exactly one claim and grants to the next (O3, O4, Q2, Q5, H2, H4, X3).
-- ARGV[6] session id, [7] seq, [8] name, [9] keep for ms, [10] 1 to tombstone
-- Replies: OK, 0 absent | 1 queued | 2 granted | 3 broken, 1 if dead claims are left in
-- front of the queue ; GONE ; RESET
if was_reset() then return { 'RESET' } end
local sid, seq, name, kept = ARGV[6], tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9])
if not session(sid) then return { 'GONE' } end
local id, found = id_from(sid, seq), 0
local raw = redis.call('HGET', H, 'k' .. sid)
if raw then
  local list = cmsgpack.unpack(raw)
  for i, b in ipairs(list) do
    if b == seq or b == -seq then -- it stays, negative: a withdrawal may be sent twice
      list[i] = -seq
      found = 3
      break
    end
  end
  if found == 3 then redis.call('HSET', H, 'k' .. sid, cmsgpack.pack(list)) end
end
if ARGV[10] == '1' then
  mark(sid, id, '1')
else
  local found = redis.call('HGET', H, 'b' .. id)
  if found and string.byte(found) == 120 then unmark(sid, id, found) end
end
local grants = refresh(name)
local g, i = find(grants, sid, seq)
if g then
  found = 2
  local till = g[MINEND]
  if kept > 0 and after(kept) > till then till = after(kept) end
  if till > now then keep(g, till) else table.remove(grants, i) end
  promote(name, grants)
  save(name, grants)
else
  local place = place_of(name, id)
  if place then
    found = 1
    dequeue(name, place, id)
    if promote(name, grants) or grace() > 0 then save(name, grants) end
  end
end
return { 'OK', found, stopped and 1 or 0 }
