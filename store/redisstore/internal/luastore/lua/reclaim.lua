-- Puts lost grants back (R3, R4, R5), or, if none is given, notes that all were put back (R6).
-- ARGV[6] session id, then ten for each grant: seq, name, mode, weight, limit, re-entry,
-- record, min hold ms, max hold ms, counter
-- Replies: OK, for each 1 held | 0 not ; GONE ; RESET
if was_reset() then return { 'RESET' } end
local sid = ARGV[6]
local s = session(sid)
if not s then return { 'GONE' } end
if #ARGV == 6 then
  s[3] = inc
  put_session(sid, s)
  return { 'OK' }
end

-- reclaim puts back the grant whose arguments begin at ARGV[at].
local function reclaim(at)
  local seq, name, counter = tonumber(ARGV[at]), ARGV[at + 1], tonumber(ARGV[at + 9])
  local e = { sid, seq, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), ARGV[at + 5], ARGV[at + 6],
    tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8]), now, 0, 0, 0, s[2], inc, name }
  local id, grants = id_of(e), refresh(name)
  local g = find(grants, sid, seq)
  if g then
    if g[COUNTER] ~= counter then return 0 end
    g[INC] = inc
    -- The data may be older than a downgrade. Readers that were granted after the downgrade
    -- reclaim beside this grant.
    downgrade(name, grants, g, e)
    save(name, grants)
    return 1
  end
  local floor = redis.call('HGET', H, 'r' .. name)
  if grace() == 0 or redis.call('HEXISTS', H, 'b' .. id) == 1 or (floor and counter < tonumber(floor)) then
    return 0
  end
  local place = place_of(name, id)
  if place then dequeue(name, place, id) end
  local all, sure = {}, {}
  for _, o in ipairs(grants) do
    local suspect, together = o[INC] ~= inc, o[MODE] == 1 and e[MODE] == 1
    if suspect and not together and o[COUNTER] < counter then
      -- o was released before e was granted: the data is older than the release.
    else
      all[#all + 1] = o
      if not (suspect and together) then sure[#sure + 1] = o end
    end
  end
  -- The weights of shared grants are not counted: e was granted, by a limit that may be lost
  -- too, and nothing new is granted during grace.
  local room = not exclusive(sure)
  if e[MODE] == 0 then room = fits(name, sure, e) and (room or sure[1][COUNTER] == counter) end
  if not room then
    if #all < #grants then save(name, all) end
    return 0
  end
  hold(e, counter)
  all[#all + 1] = e
  save(name, all)
  if e[MODE] == 0 then redis.call('HSET', H, 'r' .. name, num(counter)) end
  raise(name, counter + 1)
  return 1
end

local reply = { 'OK' }
for at = 7, #ARGV, 10 do reply[#reply + 1] = reclaim(at) end
return reply
