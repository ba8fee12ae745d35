-- One attempt of one claim (O1, O2, O5, O6, Q4, L2).
-- ARGV[6] session id, [7] seq, [8] name, [9] mode, [10] weight, [11] limit,
-- [12] re-entry, [13] record, [14] min hold ms, [15] max hold ms, [16] 1 to queue,
-- [17] counter not to fall below or 0, [18] 1 to lift, [19] the element that the caller
-- may have in the list, '?' if it may have one that it does not know, '' if it has none,
-- [20] the ticket that the caller knows its claim to have, or 0, [21] as ask.lua has it
-- Replies: GRANTED, counter, rest of max hold in ms, the first 7 bytes of its element if plain
--          commands may remove it
--        | QUEUED or BUSY, place, rest of grace, poll after ms, holders, highest
--          counter if one was not to fall below, or 0; its element in the queue or ''; 1 if dead
--          grants are left to be checked
--        | ABSENT | GONE | RESET
if was_reset() then return { 'RESET' } end
local sid, name = ARGV[6], ARGV[8]
local s = session(sid)
if not s then return { 'GONE' } end
local e = { sid, tonumber(ARGV[7]), tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12], ARGV[13],
  tonumber(ARGV[14]), tonumber(ARGV[15]), now, 0, 0, 0, s[2], inc, name }
local id = id_of(e)
local k = refresh(name)
refill()
local floor = tonumber(ARGV[17])
if floor > 0 then
  vote() -- so that votes.lua does the next
  raise(k, floor) -- whatever the answer is (T6)
end
if call('HEXISTS', H, 'b' .. id) == 1 then return { 'ABSENT' } end

local function granted(g)
  return { 'GRANTED', num(g[COUNTER]), num(g[MAXEND] > 0 and math.max(1, left(g[MAXEND])) or 0),
    not voted and (k.form == 'X' or k.form == 'G') and sub(k.raw, 1, 7) or '' }
end

-- foreign reports whether the ticket before the claim may be that of another claim. A release of
-- which the server rejected the first command leaves a ticket, and plain commands push a claim
-- without one if there are none.
local function foreign(letter, ticket) return letter == 'X' and tonumber(ticket) ~= tonumber(ARGV[20]) end

local g, i = find(k, sid, e[SEQ])
if g and (foreign(k.form, g[COUNTER]) or g[INC] ~= inc and g[COUNTER] ~= tonumber(ARGV[20]) and g[MINEND] <= now) then
  -- Or it was pushed or granted before the data was lost, or by a transaction that did not know
  -- of the loss, and its process never learned its number: other numbers may have been
  -- granted since, and a ticket may have been issued twice.
  remove(k, g, i)
  promote(k)
  g = nil
end
if g then
  if g[INC] ~= inc then -- its session knows of it: as good as reclaimed
    g[INC] = inc
    rewrite(k, g)
  end
  downgrade(k, g, e)
  if ARGV[18] == '1' and g[COUNTER] < floor then
    local old, new = g[COUNTER], number(k, 0)
    for _, o in ipairs(all(k)) do
      if o[COUNTER] == old then
        o[COUNTER] = new
        rewrite(k, o)
      end
    end
    g[COUNTER], k.changed = new, true
    if k.form == 'S' then k.top = math.max(k.top, new) end
  end
  save(k)
  return granted(g)
end

local at, ticket, raw
if ARGV[19] ~= '' then at, ticket, raw = seek(k, id, ARGV[19] ~= '?' and ARGV[19] or '') end
if at and (not ticket or foreign(sub(raw, 1, 1), ticket) or not stands(claim_of(raw, name))) then
  unqueue(k, ticket, raw)
  at = nil
end
if at and grace() == 0 and not stopped then
  local queued_claim = claim_of(raw, name)
  if reenters(k, queued_claim) then -- it is too far back to be found by others
    unqueue(k, ticket, raw)
    grant(k, queued_claim, tonumber(ticket))
    save(k)
    return granted(queued_claim)
  end
end
if at and byte(raw) == 88 then
  raw = 'Q' .. sub(raw, 2)
  call('LSET', k.L, at, raw)
end

local resting = grace() > 0
if not at then
  local waiting = call('LLEN', k.L) > (k.form and 2 or 0)
  if not resting and not stopped and (not waiting and room(k, e) or reenters(k, e)) then
    grant(k, e)
    save(k)
    return granted(e)
  end
  if k.form == 'S' then save(k) end
  if ARGV[16] == '1' then
    raw = queued(e)
    at = call('RPUSH', k.L, num(draw()), raw) - 1
  end
end

local poll, holders, before = 0, {}, at and place(k, at) or 0
for i, h in ipairs(sample(k)) do
  if #holders < 4 then holders[#holders + 1] = shown(h) end
  if at and before == 0 and h[SID] ~= '' then call(ARGV[4], ARGV[3] .. h[SID] .. ':w', struct.pack('>I6', h[SEQ])) end -- notice.go
  local d = ends_in(h)
  if i == 1 or d < poll then poll = d end
end
if resting then poll = grace() elseif stopped then poll = 1 else poll = poll + math.min(before, 8) * 250 end
return { at and 'QUEUED' or 'BUSY', before, num(grace()), num(poll), holders,
  num(floor > 0 and highest(name) or 0), at and raw or '', stopped and 1 or 0 }
