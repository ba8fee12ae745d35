-- Grants a plain claim that is new, or queues it behind a plain holder, if that is all there is
-- to do: the server has the run id and the incarnation in which the session was opened, there
-- are no votes and no grace period, the sessions of the claim and of the holder live, and neither
-- of the two has a mark. It stands before all of attempt.lua and costs a fraction of it.
-- A claim with a re-entry is granted only if the lock is free: it may join a holder.
-- ARGV[21] generation and incarnation of the session, 7 bytes each
if RUN_ID ~= '' and ARGV[19] == '' and ARGV[9] == '0' and ARGV[10] == '1' and ARGV[11] == '0'
  and ARGV[14] == '0' and ARGV[15] == '0' and ARGV[17] == '0' then
  local call, sub, byte = redis.call, string.sub, string.byte
  local found = call('HMGET', KEYS[1], 'm', 's' .. ARGV[6])
  local m, s = found[1], found[2]
  local id = ARGV[6] .. struct.pack('>I6', ARGV[7])
  local function unmarked(session, claim) return byte(session, 14) == 0 or call('HEXISTS', KEYS[1], 'b' .. claim) == 0 end
  if m and s and sub(m, 1, 7) == sub(ARGV[21], 8) and byte(m, 8) == 0 and sub(s, 7, 13) == sub(ARGV[21], 1, 7) and unmarked(s, id) then
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    local two = call('LRANGE', KEYS[3], 0, 1)
    local ticket, raw = two[1], two[2]
    local rest = id .. ARGV[21] .. ARGV[13]
    if not checked(m, now) or ends(ARGV[6], s, now) <= now then
      -- it has ended, or the server may have been replaced
    elseif not ticket then
      -- Not LPOP, which a server whose memory is full does not reject: nor would it the RPUSH.
      local mine = call('LMOVE', KEYS[2], KEYS[3], 'LEFT', 'RIGHT')
      if mine then
        local head = ''
        if ARGV[12] == '' then
          head = 'G' .. struct.pack('>I6', now)
          call('RPUSH', KEYS[3], head .. rest)
        else
          local generation, inc = struct.unpack('>I7I7', ARGV[21])
          call('RPUSH', KEYS[3], 'A' .. cmsgpack.pack({ { ARGV[6], tonumber(ARGV[7]), 0, 1, 0, ARGV[12], ARGV[13], 0, 0, now,
            tonumber(mine), 0, 0, generation, inc, ARGV[8] } }))
        end
        return { 'GRANTED', mine, '0', head }
      end
    elseif raw and byte(ticket) >= 48 and byte(ticket) <= 57 and ARGV[12] == '' and (byte(raw) == 88 or byte(raw) == 71) and sub(raw, 37, 43) == sub(ARGV[21], 8) then
      local holder = sub(raw, 8, 23)
      local h = call('HGET', KEYS[1], 's' .. holder)
      if h and sub(h, 7, 13) == sub(raw, 30, 36) and sub(raw, 8, 29) ~= id and ends(holder, h, now) > now
        and unmarked(h, sub(raw, 8, 29)) then
        local before, word, element = 0, 'BUSY', ''
        local mine = ARGV[16] == '1' and call('LMOVE', KEYS[2], KEYS[3], 'LEFT', 'RIGHT')
        if mine then
          word, element = 'QUEUED', 'Q' .. struct.pack('>I6', now) .. rest
          before = math.floor(call('RPUSH', KEYS[3], element) / 2) - 2
          if before == 0 then call(ARGV[4], ARGV[3] .. holder .. ':w', sub(raw, 24, 29)) end -- notice.go
        end
        if mine or ARGV[16] ~= '1' then
          -- Keep-alives by plain commands move the end in the sorted set only.
          local till = tonumber(call('ZSCORE', KEYS[#KEYS], holder) or '0')
          local ends = math.max(0, math.max(till, struct.unpack('>I6', h)) - now - 1)
          return { word, before, '0', string.format('%.0f', ends + math.min(before, 8) * 250),
            { { holder, string.format('%.0f', struct.unpack('>I6', raw, 24)), ticket, 0, '1', '', sub(raw, 44),
              string.format('%.0f', math.max(0, now - struct.unpack('>I6', raw, 2))), string.format('%.0f', ends) } }, '0', element, 0 }
        end
      end
    end
  end
end
