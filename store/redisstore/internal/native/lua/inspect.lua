-- Who holds and who waits, for some locks (I1, I2). It stops after some hundred claims. Of a lock with many grants it shows
-- some; holders.lua shows the rest.
-- ARGV most names
--   most   waiters to show of each
--   names  and after
-- Replies: OK, rest of grace in ms, how many of the names are done; for each: holders, how many there are, cursor of those
-- that are not shown or '0', waiters, number in the queue, in which those beyond the ones shown may be dead, stored limit;
-- then 1 if dead claims are left in front of a queue
local most, reply, work = tonumber($most), { 'OK', num(grace()), 0 }, 0
for i = @names, #ARGV do
  if work > 200 then break end
  local name, holders, waiters, dead = ARGV[i], {}, {}, {}
  local k = refresh(name)
  local grants, rest
  if k.form == 'S' and k.shared.count > SOME then grants, rest = some(k, '0') else grants, rest = all(k), '0' end
  for _, g in ipairs(grants) do
    if k.form ~= 'S' or upheld(g) then holders[#holders + 1] = shown(g) end -- of many, some may be dead
  end
  for _, ticket, raw in queue(k) do
    local e = claim_of(raw, name)
    if ticket and waits(e) then
      if #waiters == most then break end
      waiters[#waiters + 1] = { e[SID], num(e[SEQ]), e[MODE], num(e[WEIGHT]), e[RECORD], num(math.max(0, now - e[SINCE])) }
    elseif #dead == MANY then
      stopped = true
      break
    else
      dead[#dead + 1] = { ticket, raw } -- so that the number is right as far as we read
    end
  end
  for _, d in ipairs(dead) do unqueue(k, d[1], d[2]) end
  local waiting = math.floor((call('LLEN', k.L) - (k.form and 2 or 0)) / 2)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = holders, k.form == 'S' and k.shared.count or #holders, rest
  reply[n + 4], reply[n + 5], reply[n + 6] = waiters, waiting, call('HGET', H, 'n' .. name) or '0'
  reply[3] = reply[3] + 1
  work = work + 4 + #grants + #waiters + #dead
end
reply[#reply + 1] = stopped and 1 or 0
return reply
