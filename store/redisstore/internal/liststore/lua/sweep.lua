-- Drops what dead processes have left in some locks, and grants to the next.
-- ARGV[6] when the sweep began in ms, [7] and after: names
-- Replies: OK, 1 if there is more in one of them
local began = tonumber(ARGV[6])
for i = 7, #ARGV do
  local k, dead = refresh(ARGV[i]), {}
  if k.form == 'S' and k.shared[1] > SOME then
    if not clean(k, began) or k.shared[5] < began then stopped = true end
    promote(k)
    save(k)
  end
  for _, ticket, raw in queue(k) do
    if #dead == MANY then
      stopped = true
      break
    end
    if not ticket or not stands(claim_of(raw, k.name)) then dead[#dead + 1] = { ticket, raw } end
  end
  for _, d in ipairs(dead) do unqueue(k, d[1], d[2]) end
end
return { 'OK', stopped and 1 or 0 }
