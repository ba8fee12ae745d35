-- One attempt of one claim (O1, O2, O5, O6, Q4, L2).
-- ARGV sid seq name mode weight limit reentry record min max queue floor lift element ticket tail
--   min, max  hold in ms
--   queue     1 to queue
--   floor     number not to fall below or 0
--   lift      1 to lift
--   element   that the caller may have in the list, '?' if it may have one that it does not know, '' if it has none
--   ticket    that the caller knows its claim to have, or 0
--   tail      generation and incarnation of the session, 7 bytes each
-- Replies: GRANTED, number, rest of max hold in ms, the first 7 bytes of its element if plain
--          commands may remove it, or all of it if it is the only re-entrant grant
--        | QUEUED or BUSY, place, rest of grace, poll after ms, holders, highest
--          number if one was not to fall below, or 0; its element in the queue or ''; 1 if dead
--          grants are left to be checked
--        | ABSENT | GONE | RESET

-- Most often a plain claim is new, and there is nothing to do but to grant it, or to queue it behind a plain holder. To make
-- the functions of lib.lua would cost more than that, so this comes before them (TestShortPartsPay).
if RUN_ID ~= '' and $element == '' and $mode == '0' and $weight == '1' and $limit == '0'
  and $min == '0' and $max == '0' and $floor == '0' then
  local met, generation, inc = meet($sid, $tail)
  if met and not this.voted and granting() and stands($sid, tonumber($seq), generation, inc) then
    local since, claim = struct.pack('>I6', now), id_from($sid, $seq) .. $tail .. $record
    local two = call('LRANGE', KEYS[3], '0', '1')
    local ticket, raw = two[1], two[2]
    if not ticket then
      -- Not LPOP, which a server whose memory is full does not reject: nor would it the RPUSH.
      local mine = call('LMOVE', T, KEYS[3], 'LEFT', 'RIGHT')
      if mine and $reentry ~= '' then -- it may be joined, which is written in its array (lib.lua)
        local array = 'A' .. cmsgpack.pack({ { $sid, tonumber($seq), 0, 1, 0, $reentry, $record, 0, 0, now, tonumber(mine), 0, 0,
          generation, inc, $name } })
        call('RPUSH', KEYS[3], array)
        return { 'GRANTED', mine, '0', array }
      elseif mine then
        call('RPUSH', KEYS[3], 'G' .. since .. claim)
        return { 'GRANTED', mine, '0', 'G' .. since }
      end
    elseif raw and is_ticket(ticket) and $reentry == '' and (byte(raw) == $X or byte(raw) == $G) then
      local holder, seq, of_generation, of_inc = short(raw)
      if sub(raw, $ID) ~= id_from($sid, $seq) and stands(holder, seq, of_generation, of_inc) then
        local before, word, element = 0, 'BUSY', ''
        if $queue == '1' then
          local mine = call('LMOVE', T, KEYS[3], 'LEFT', 'RIGHT')
          word, element = mine and 'QUEUED', 'Q' .. since .. claim
          if mine then before = math.floor(call('RPUSH', KEYS[3], element) / 2) - 2 end
          if mine and before == 0 then call($publish, $channel .. holder .. ':w', sub(raw, $SEQ_TO)) end -- notice.go
        end
        if word then
          -- Keep-alives by plain commands move the end in the sorted set only.
          local till = math.max(session(holder).till, tonumber(call('ZSCORE', Z, holder) or '0'))
          local ends = math.max(0, till - now - 1)
          return { word, before, '0', num(ends + math.min(before, 8) * 250), { { holder, num(seq), ticket, 0, '1', '',
            sub(raw, $RECORD), num(math.max(0, now - struct.unpack('>I6', raw, $SINCE))), num(ends) } }, '0', element, 0 }
        end
      end
    end
  end
end
-- LIB

if was_reset() then return { 'RESET' } end
local sid, name = $sid, $name
local s = session(sid)
if not s then return { 'GONE' } end
local e = { sid, tonumber($seq), tonumber($mode), tonumber($weight), tonumber($limit), $reentry, $record,
  tonumber($min), tonumber($max), now, 0, 0, 0, s.generation, inc, name }
local id = id_of(e)
local k = refresh(name)
refill()
local floor = tonumber($floor)
if floor > 0 then
  vote() -- so that batch.lua does the next
  raise(k, floor) -- whatever the answer is (T6)
end
-- The mark may be of an earlier session of this id.
if not waits(e) or call('HEXISTS', H, 'b' .. id) == 1 then return { 'ABSENT' } end

local function granted(g)
  return { 'GRANTED', num(g[COUNTER]), num(g[MAXEND] > 0 and math.max(1, left(g[MAXEND])) or 0),
    not this.voted and (k.form == 'X' or k.form == 'G') and sub(k.raw, 1, 7) or '' }
end

-- foreign reports whether the ticket before the claim may be that of another claim. A release of
-- which the server rejected the first command leaves a ticket, and plain commands push a claim
-- without one if there are none.
local function foreign(letter, ticket) return letter == 'X' and tonumber(ticket) ~= tonumber($ticket) end

local g, i = find(k, sid, e[SEQ])
if g and (foreign(k.form, g[COUNTER]) or g[INC] ~= inc and g[COUNTER] ~= tonumber($ticket) and g[MINEND] <= now) then
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
  if $lift == '1' and g[COUNTER] < floor then
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
if $element ~= '' then at, ticket, raw = seek(k, id, $element ~= '?' and $element or '') end
if at and (not ticket or foreign(sub(raw, 1, 1), ticket) or not waits(claim_of(raw, name))) then
  unqueue(k, ticket, raw)
  at = nil
end
if at and granting() and not stopped then
  local queued_claim = claim_of(raw, name)
  if reenters(k, queued_claim) then -- it is too far back to be found by others
    unqueue(k, ticket, raw)
    grant(k, queued_claim, tonumber(ticket))
    save(k)
    return granted(queued_claim)
  end
end
if at and byte(raw) == $X then
  raw = 'Q' .. sub(raw, 2)
  call('LSET', k.L, at, raw)
end

if not at then
  local waiting = call('LLEN', k.L) > (k.form and 2 or 0)
  if granting() and not stopped and (not waiting and room(k, e) or reenters(k, e)) then
    grant(k, e)
    save(k)
    return granted(e)
  end
  if k.form == 'S' then save(k) end
  if $queue == '1' then
    raw = queued(e)
    at = call('RPUSH', k.L, num(draw()), raw) - 1
  end
end

local poll, holders, before = 0, {}, at and place(k, at) or 0
for i, h in ipairs(sample(k)) do
  if #holders < 4 then holders[#holders + 1] = shown(h) end
  if at and before == 0 and h[SID] ~= '' then call($publish, $channel .. h[SID] .. ':w', struct.pack('>I6', h[SEQ])) end -- notice.go
  local d = ends_in(h)
  if i == 1 or d < poll then poll = d end
end
if grace() > 0 then poll = grace() elseif stopped or not granting() then poll = 1 else poll = poll + math.min(before, 8) * 250 end
return { at and 'QUEUED' or 'BUSY', before, num(grace()), num(poll), holders,
  num(floor > 0 and highest(name) or 0), at and raw or '', stopped and 1 or 0 }
