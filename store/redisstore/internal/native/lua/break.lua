-- Ends the grants with a counter, whichever claim has it (T4, I4). Of a lock with many grants a call checks some.
-- ARGV name counter cursor
--   cursor  of the grants to check
-- Replies: OK, counter of the fence, 0 if no grant has the counter, cursor of the next grants or '0', 1 if dead claims are left in
-- front of the queue
local name, counter = $name, tonumber($counter)
local k, broken = refresh(name), {}
local grants, rest
if k.form == 'S' and k.shared.count > SOME then grants, rest = some(k, $cursor) else grants, rest = all(k), '0' end
for _, g in ipairs(grants) do
  if g[COUNTER] == counter then broken[#broken + 1] = g end
end
if #broken == 0 then return { 'OK', '0', rest, stopped and 1 or 0 } end
-- The fence is a new number. The claims in the queue have lower tickets, so they are granted
-- with higher numbers.
local fence = number(k, draw())
k.top = math.max(k.top, fence)
for _, g in ipairs(broken) do
  if g[SID] ~= '' then
    local raw = call('HGET', H, 'k' .. g[SID])
    local list = raw and cmsgpack.unpack(raw) or {}
    list[#list + 1] = g[SEQ]
    call('HSET', H, 'k' .. g[SID], cmsgpack.pack(list))
    spend(g)
  end
  if k.form == 'S' then remove(k, g) end
end
if #k.grants > 0 then
  local left = {}
  for _, g in ipairs(k.grants) do
    if g[COUNTER] ~= counter then left[#left + 1] = g end
  end
  k.grants, k.changed = left, true
  if #left == 0 then unhead(k) end
end
promote(k)
return { 'OK', num(fence), rest, stopped and 1 or 0 }
