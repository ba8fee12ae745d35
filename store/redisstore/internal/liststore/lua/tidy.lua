-- Reads some fields of the bucket for sessions that ended without being closed, and drops what
-- is left of them.
-- ARGV[6] session id of the caller, [7] cursor, [8] how many fields to read, [9] in ms: what is
-- left of sessions that ended before is dropped, 0 for nothing, [10] for how many ms to be
-- the one sweeper of the bucket, 0 to only check
-- Replies: OK, next cursor, how many sessions had ended, clock in ms | BUSY, another process sweeps
local before, lease = tonumber(ARGV[9]), tonumber(ARGV[10])
if lease > 0 then
  local raw = call('HGET', H, 'g')
  if raw and sub(raw, 1, 16) ~= ARGV[6] then
    local till = struct.unpack('>I6', raw, 17)
    if till > now and till <= after(lease) then return { 'BUSY' } end
  end
  call('HSET', H, 'g', ARGV[6] .. struct.pack('>I6', after(lease)))
end

-- unexpected is after how many ms no call of a claim that was tombstoned can still arrive:
-- many times what the network, and a server that stands still, keep one for.
local unexpected = 3600000

local part, dead = call('HSCAN', H, ARGV[7], 'COUNT', ARGV[8]), 0
for i = 1, #part[2], 2 do
  local field, value = part[2][i], part[2][i + 1]
  local kind, rest = byte(field), sub(field, 2)
  if kind == 115 and not session(rest) then -- s
    dead = dead + 1
    if struct.unpack('>I6', value) < before then call('HDEL', H, field, 'k' .. rest) end
  elseif before > 0 and kind == 107 and call('HEXISTS', H, 's' .. rest) == 0 then -- k
    call('HDEL', H, field)
  elseif before > 0 and kind == 98 then -- b
    local owner = sub(rest, 1, 16)
    if call('HEXISTS', H, 's' .. owner) == 0 then
      call('HDEL', H, field)
    elseif byte(value) == 49 and now - struct.unpack('>I6', value, 2) > unexpected then
      unmark(owner, rest, value)
    end
  elseif before > 0 and kind == 114 and grace() == 0 and call('EXISTS', H .. ':l:' .. rest) == 0 then -- r
    call('HDEL', H, field)
  end
end
if lease > 0 and before > 0 and part[1] == '0' then call('HDEL', H, 'g') end
return { 'OK', part[1], dead, num(now) }
