-- Puts one forgotten grant back (R3, R4, R5), or, with an empty name, says that
-- all were (R6).
-- ARGV[9] session id, [10] seq, [11] name, [12] mode, [13] weight, [14] limit,
-- [15] re-entry, [16] record, [17] min hold ms, [18] max hold ms, [19] counter
-- Replies: OK, 1 held | 0 not ; GONE ; FORGOTTEN
if forgotten() then return { 'FORGOTTEN' } end
local sid, seq, name = ARGV[9], tonumber(ARGV[10]), ARGV[11]
local s = session(sid)
if not s then return { 'GONE' } end
if name == '' then
  s[3] = inc
  put_session(sid, s)
  return { 'OK', 1 }
end
local counter = tonumber(ARGV[19])
local e = { sid, seq, tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14]), ARGV[15], ARGV[16],
  tonumber(ARGV[17]), tonumber(ARGV[18]), now, 0, 0, 0, s[2], inc, name }
local id, grants = id_of(e), settle(name)
local g = find(grants, sid, seq)
if g then
  if g[COUNTER] ~= counter then return { 'OK', 0 } end
  g[INC] = inc
  save(name, grants)
  return { 'OK', 1 }
end
local floor = redis.call('HGET', H, 'r' .. name)
if grace() == 0 or redis.call('HEXISTS', H, 'b' .. id) == 1 or (floor and counter < tonumber(floor)) then
  return { 'OK', 0 }
end
local place = in_line(name, id)
if place then dequeue(name, place, id) end
local all, sure = {}, {}
for _, o in ipairs(grants) do
  local suspect, together = o[INC] ~= inc and o[SID] ~= '', o[MODE] == 1 and e[MODE] == 1
  if suspect and not together and o[COUNTER] < counter then
    -- It was released before ours was granted: the memory is older than that.
  else
    all[#all + 1] = o
    if not (suspect and together) then sure[#sure + 1] = o end
  end
end
-- Weights of shared ones are not counted: it was granted, by a limit that may be
-- forgotten too, and nothing new is granted meanwhile.
local room = not exclusive(sure)
if e[MODE] == 0 then room = fits(name, sure, e) and (room or sure[1][COUNTER] == counter) end
if not room then return { 'OK', 0 } end
hold(e, counter)
all[#all + 1] = e
save(name, all)
if e[MODE] == 0 then redis.call('HSET', H, 'r' .. name, num(counter)) end
raise(name, counter + 1)
return { 'OK', 1 }
