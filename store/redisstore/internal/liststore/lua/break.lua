-- Ends the grants with a counter, whichever claim has it (T4, I4).
-- ARGV[6] name, [7] counter
-- Replies: OK, counter of the fence, 1 if dead claims are left in front of the queue | NOTHELD
local name, counter = ARGV[6], tonumber(ARGV[7])
local k, broken = refresh(name), {}
for _, g in ipairs(all(k)) do
  if g[COUNTER] == counter then broken[#broken + 1] = g end
end
if #broken == 0 then return { 'NOTHELD' } end
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
  local rest = {}
  for _, g in ipairs(k.grants) do
    if g[COUNTER] ~= counter then rest[#rest + 1] = g end
  end
  k.grants, k.changed = rest, true
  if #rest == 0 then unhead(k) end
end
promote(k)
return { 'OK', num(fence), stopped and 1 or 0 }
