-- Removes a plain grant, and passes the lock to the first in the queue if that is a plain claim,
-- under the conditions of ask.lua. It stands before all of withdraw.lua. That there is no grace
-- is read from the marker: ask.lua has no ticket in a grace, but a claim may be queued in one.
-- A claim that is queued is not a grant, even if it is the first of the list: the one before it
-- was removed by plain commands, or there is a grace period.
-- An A is removed if its only grant is that of the claim, nothing waits, and no reclaim is noted
-- that would have to end with it.
-- ARGV[12] generation and incarnation of the session, 7 bytes each
if RUN_ID ~= '' and ARGV[9] == '0' and ARGV[10] == '0' and (ARGV[11] == '' or string.find(ARGV[11], '^[XG]')) then
  local call, sub, byte = redis.call, string.sub, string.byte
  local four = call('LRANGE', KEYS[3], 0, 3)
  local ticket, next, mine = four[3], four[4], ARGV[11]
  if mine == '' and #four == 2 and byte(four[2]) == 65 then
    local grants = cmsgpack.unpack(sub(four[2], 2))
    local g = grants[1]
    if #grants == 1 and g[1] == ARGV[6] and g[2] == tonumber(ARGV[7]) and g[12] == 0 and g[13] == 0
      and struct.pack('>I7I7', g[14], g[15]) == ARGV[12] then
      mine = four[2]
    end
  end
  if four[2] == mine and byte(four[1]) >= 48 and byte(four[1]) <= 57 then
    local found = call('HMGET', KEYS[1], 'm', 's' .. ARGV[6], 's' .. (next and sub(next, 8, 23) or ''))
    local m, s, n = found[1], found[2], found[3]
    if m and s and sub(m, 1, 7) == sub(ARGV[12], 8) and byte(m, 8) == 0 and sub(s, 7, 13) == sub(ARGV[12], 1, 7) then
      local t = redis.call('TIME')
      local now = t[1] * 1000 + math.floor(t[2] / 1000)
      if checked(m, now) and ends(ARGV[6], s, now) > now then
        if not ticket and (ARGV[11] ~= '' or call('HEXISTS', KEYS[1], 'r' .. ARGV[8]) == 0) then
          call('LPOP', KEYS[3], 2)
          return { 'OK', 2, 0 }
        end
        if n and byte(next) == 81 and byte(ticket) >= 48 and byte(ticket) <= 57 and sub(next, 37, 43) == sub(ARGV[12], 8)
          and sub(n, 7, 13) == sub(next, 30, 36) and ends(sub(next, 8, 23), n, now) > now
          and struct.unpack('>I6', m, 22) <= now
          and (byte(n, 14) == 0 or call('HEXISTS', KEYS[1], 'b' .. sub(next, 8, 29)) == 0) then
          local since = struct.pack('>I6', now)
          call('LPOP', KEYS[3], 2)
          call('LSET', KEYS[3], 1, 'G' .. since .. sub(next, 8))
          call(ARGV[4], ARGV[3] .. sub(next, 8, 23), sub(next, 24, 29) .. struct.pack('>I7', ticket) .. since)
          return { 'OK', 2, 0 }
        end
      end
    end
  end
end
