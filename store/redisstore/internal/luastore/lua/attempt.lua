-- One attempt of one claim (O1, O2, O5, O6, Q4, L2).
-- ARGV[6] session id, [7] seq, [8] name, [9] mode, [10] weight, [11] limit,
-- [12] re-entry, [13] record, [14] min hold ms, [15] max hold ms, [16] 1 to queue,
-- [17] floor of the counter or 0, [18] 1 to raise the counter of an existing grant to it
-- Replies: GRANTED, counter, rest of max hold in ms
--        | QUEUED or BUSY, claims ahead, rest of grace in ms, poll after ms, holders,
--          highest counter if there is a floor, or 0
--        | ABSENT | GONE | RESET
if was_reset() then return { 'RESET' } end
local sid, name = ARGV[6], ARGV[8]
local s = session(sid)
if not s then return { 'GONE' } end
local e = { sid, tonumber(ARGV[7]), tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12], ARGV[13],
  tonumber(ARGV[14]), tonumber(ARGV[15]), now, 0, 0, 0, s[2], inc, name }
local id = id_of(e)
local grants = refresh(name)
local floor = tonumber(ARGV[17])
if floor > 0 then raise(name, floor) end -- whatever the answer is (T6)
if redis.call('HEXISTS', H, 'b' .. id) == 1 then return { 'ABSENT' } end

local function granted(g)
  return { 'GRANTED', num(g[COUNTER]), num(g[MAXEND] > 0 and math.max(1, left(g[MAXEND])) or 0) }
end

local g = find(grants, sid, e[SEQ])
if g then
  if g[INC] ~= inc then -- its session knows the grant, so it counts as reclaimed
    g[INC] = inc
    save(name, grants)
  end
  if downgrade(name, grants, g, e) then save(name, grants) end
  if ARGV[18] == '1' and g[COUNTER] < floor then
    local old, new = g[COUNTER], tick(name)
    for _, o in ipairs(grants) do
      if o[COUNTER] == old then o[COUNTER] = new end
    end
    save(name, grants)
  end
  return granted(g)
end

local place = place_of(name, id)
local resting = grace() > 0
if not place then
  local first, last = bounds(name)
  if not resting and (first == last and fits(name, grants, e) or reenters(grants, e)) then
    grant(grants, e)
    save(name, grants)
    return granted(e)
  end
  if ARGV[16] == '1' then
    enqueue(name, e)
    save(name, grants) -- no longer simple: a claim waits
    place = last
  end
end

local poll, holders, before = 0, {}, place and ahead(name, place) or 0
for i, h in ipairs(grants) do
  if #holders < 4 then holders[#holders + 1] = shown(h) end
  local d = ends_in(h)
  if i == 1 or d < poll then poll = d end
end
if resting then poll = grace() elseif stopped then poll = 1 else poll = poll + math.min(before, 8) * 250 end
return { place and 'QUEUED' or 'BUSY', before, num(grace()), num(poll), holders,
  num(floor > 0 and highest(name) or 0) }
