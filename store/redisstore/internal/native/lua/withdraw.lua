-- Removes exactly one claim and grants to the next (O3, O4, Q2, Q5, H2, H4, X3).
-- ARGV sid seq name keep tombstone element tail
--   keep       the lock for so many ms
--   tombstone  1 to tombstone
--   element    of the claim if the caller knows it, else ''
--   tail       generation and incarnation of the session, 7 bytes each
-- Replies: OK, 0 absent | 1 queued | 2 granted | 3 broken, 1 if dead claims are left in
-- front of the queue ; GONE ; RESET

-- Most often a plain claim gives its lock back, to nobody or to a plain claim (attempt.lua says why this comes before lib.lua).
if RUN_ID ~= '' and $keep == '0' and $tombstone == '0' and string.find($element, '^[XGA]') then
  if meet($sid, $tail) and release(KEYS[3], $element) then return { 'OK', 2, 0 } end
end
-- LIB

if was_reset() then return { 'RESET' } end
local sid, seq, name, kept = $sid, tonumber($seq), $name, tonumber($keep)
if not session(sid) then return { 'GONE' } end
local id, found = id_from(sid, seq), 0
-- A withdrawal may be sent twice, so those that were broken and withdrawn last stay known, in another field: keep-alives
-- report all of k, and are plain commands without it.
local both = call('HMGET', H, 'k' .. sid, 'w' .. sid)
local function index(list)
  for i, b in ipairs(list) do
    if b == seq then return i end
  end
end
if both[1] or both[2] then
  local broken, withdrawn = both[1] and cmsgpack.unpack(both[1]) or {}, both[2] and cmsgpack.unpack(both[2]) or {}
  local i = index(broken)
  if i or index(withdrawn) then found = 3 end
  if i then
    withdrawn[#withdrawn + 1] = seq
    if #withdrawn > SOME then table.remove(withdrawn, 1) end
    call('HSET', H, 'w' .. sid, cmsgpack.pack(withdrawn))
    table.remove(broken, i)
    if #broken > 0 then call('HSET', H, 'k' .. sid, cmsgpack.pack(broken)) else call('HDEL', H, 'k' .. sid) end
  end
end
-- The lock is read before the claim is tombstoned: a claim with a tombstone does not stand.
local mark_found = call('HGET', H, 'b' .. id)
if $tombstone ~= '1' and mark_found and byte(mark_found) == $x then unmark(sid, id, mark_found) end
local k = refresh(name)
local g, i = find(k, sid, seq)
if g then
  found = 2
  local till = g[MINEND]
  if kept > 0 and after(kept) > till then till = after(kept) end
  if till > now then
    keep(g, till)
    rewrite(k, g)
    save(k)
  else
    remove(k, g, i)
  end
else
  local at, ticket, raw = seek(k, id, $element)
  if at then
    if waits(claim_of(raw, name)) then found = 1 end
    unqueue(k, ticket, raw)
  end
end
-- Before the next is granted: an attempt that came late may have queued the claim a second time.
if $tombstone == '1' then mark(sid, id, '1') end
promote(k)
return { 'OK', found, stopped and 1 or 0 }
