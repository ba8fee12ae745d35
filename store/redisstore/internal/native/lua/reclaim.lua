-- Puts lost grants back (R3, R4, R5), or, without any, notes that all were (R6).
-- ARGV sid claims
--   claims  and after: ten for each: seq, name, mode, weight, limit, re-entry,
-- record, min hold ms, max hold ms, counter
-- Replies: OK, for each 1 held | 0 not | 2 not yet ; GONE ; RESET
if was_reset() then return { 'RESET' } end
local sid = $sid
local s = session(sid)
if not s then return { 'GONE' } end
if #ARGV < @claims then
  s.reclaimed = inc
  put_session(sid, s)
  return { 'OK' }
end

-- drop removes grants from a lock.
local function drop(k, gone)
  for _, o in ipairs(gone) do
    local at
    for i, g in ipairs(k.grants) do
      if g == o then at = i end
    end
    remove(k, o, at)
  end
end

-- reclaim does so for the claim whose arguments begin at a number.
local function reclaim(at)
  local seq, name, counter = tonumber(ARGV[at]), ARGV[at + 1], tonumber(ARGV[at + 9])
  local e = { sid, seq, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), ARGV[at + 5], ARGV[at + 6],
    tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8]), now, 0, 0, 0, s.generation, inc, name }
  local id, k = id_of(e), refresh(name)
  local g = find(k, sid, seq)
  if g then
    if g[COUNTER] ~= counter then return 0 end
    g[INC] = inc
    rewrite(k, g)
    -- The data may be older than a downgrade. Readers that were granted since reclaim
    -- beside this one.
    downgrade(k, g, e)
    save(k)
    return 1
  end
  local floor = call('HGET', H, 'r' .. name)
  if grace() == 0 or counter <= this.outdated or call('HEXISTS', H, 'b' .. id) == 1 or (floor and counter < tonumber(floor)) then
    return 0
  end
  local where, ticket, raw = seek(k, id, '')
  if where then unqueue(k, ticket, raw) end
  local gone, sure = {}, {}
  -- Readers reclaim beside readers. To go over all of them for each would take the square of their number.
  for _, o in ipairs(k.form == 'S' and e[MODE] == 1 and {} or all(k)) do
    local suspect, together = o[INC] ~= inc, o[MODE] == 1 and e[MODE] == 1
    if suspect and not together and o[COUNTER] < counter then
      gone[#gone + 1] = o -- it was released before ours was granted: the data is older than that
    elseif not (suspect and together) then
      sure[#sure + 1] = o
    end
  end
  drop(k, gone)
  -- Weights of shared ones are not counted: it was granted, by a limit that may be
  -- lost too, and nothing new is granted during grace.
  local room = not exclusive(sure)
  if e[MODE] == 0 then
    local joins = e[REENTRY] ~= '' and exclusive(sure)
    for _, o in ipairs(sure) do
      if o[SID] == '' or o[REENTRY] ~= e[REENTRY] then joins = false end
    end
    room = #sure == 0 or joins and sure[1][COUNTER] == counter
  end
  if not room then
    save(k)
    -- Plain commands that arrived after the loss may have pushed it. Its process removes
    -- it as soon as it sees that they were not granted.
    return k.form == 'X' and k.grants[1][INC] ~= inc and 2 or 0
  end
  if k.form == 'S' and k.shared.count == 0 then unhead(k) end
  hold(e, counter)
  add(k, e)
  save(k)
  if e[MODE] == 0 then call('HSET', H, 'r' .. name, num(counter)) end
  raise(k, counter + 1)
  return 1
end

local reply = { 'OK' }
for at = @claims, #ARGV, 10 do reply[#reply + 1] = reclaim(at) end
return reply
