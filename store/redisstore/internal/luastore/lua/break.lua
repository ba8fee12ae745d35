-- Ends the grant with a counter, whichever claim has it (T4, I4).
-- ARGV[6] name, [7] counter
-- Replies: OK, counter of the fence, 1 if dead claims are left in front of the queue | NOTHELD
local name, counter = ARGV[6], tonumber(ARGV[7])
local rest, broken = {}, false
for _, g in ipairs(refresh(name)) do
  if g[COUNTER] ~= counter then
    rest[#rest + 1] = g
  else
    broken = true
    if g[SID] ~= '' then
      local raw = redis.call('HGET', H, 'k' .. g[SID])
      local list = raw and cmsgpack.unpack(raw) or {}
      list[#list + 1] = g[SEQ]
      redis.call('HSET', H, 'k' .. g[SID], cmsgpack.pack(list))
      spend(g)
    end
  end
end
if not broken then return { 'NOTHELD' } end
local fence = tick(name)
promote(name, rest)
save(name, rest)
return { 'OK', num(fence), stopped and 1 or 0 }
