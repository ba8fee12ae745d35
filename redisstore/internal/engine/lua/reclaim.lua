-- Puts one forgotten grant back (R3, R4, R5), or, with an empty name, says that
-- all were (R6).
-- ARGV[6] session id, [7] seq, [8] name, [9] mode, [10] weight, [11] limit,
-- [12] re-entry, [13] record, [14] min hold ms, [15] max hold ms, [16] counter
-- Replies: OK, 1 held | 0 not ; GONE ; FORGOTTEN
if forgotten() then return { 'FORGOTTEN' } end
local sid, seq, name = ARGV[6], tonumber(ARGV[7]), ARGV[8]
local s = session(sid)
if not s then return { 'GONE' } end
if name == '' then
  s[3] = inc
  put_session(sid, s)
  return { 'OK', 1 }
end
local counter = tonumber(ARGV[16])
local e = { sid, seq, tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12], ARGV[13],
  tonumber(ARGV[14]), tonumber(ARGV[15]), now, 0, 0, 0, s[2], inc, name }
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
  local suspect, together = o[INC] ~= inc, o[MODE] == 1 and e[MODE] == 1
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
if not room then
  if #all < #grants then save(name, all) end
  return { 'OK', 0 }
end
hold(e, counter)
all[#all + 1] = e
save(name, all)
if e[MODE] == 0 then redis.call('HSET', H, 'r' .. name, num(counter)) end
if tonumber(redis.call('HGET', H, 'c')) < counter then redis.call('HSET', H, 'c', num(counter)) end
return { 'OK', 1 }
