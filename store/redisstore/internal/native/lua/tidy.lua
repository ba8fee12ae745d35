-- Makes the caller the one sweeper of the bucket, reads some fields of it for sessions that ended
-- without being closed, and drops what is left of them.
-- ARGV sid cursor count before lease
--   sid     of the caller
--   count   how many fields to read
--   before  in ms: what is left of sessions that ended before is dropped, 0 for nothing
--   lease   for how many ms to be the sweeper, 0 to be it no longer
-- Replies: OK, next cursor, clock in ms | BUSY, another process sweeps
local before, lease = tonumber($before), tonumber($lease)
local raw = call('HGET', H, 'g')
local mine = raw and sub(raw, 1, 16) == $sid
if lease == 0 then
  if mine then call('HDEL', H, 'g') end
  return { 'OK', '0', num(now) }
end
if raw and not mine then
  local till = struct.unpack('>I6', raw, 17)
  if till > now and till <= after(lease) then return { 'BUSY' } end
end
call('HSET', H, 'g', $sid .. struct.pack('>I6', after(lease)))
if before == 0 then return { 'OK', '0', num(now) } end

-- ended reports whether a session is dropped. Fields come in any order, so what belongs to the session
-- must not wait until the session itself is gone: no other pass may come.
local function ended(sid) return not session(sid) and tonumber(call('ZSCORE', Z, sid) or '0') < before end

local part = call('HSCAN', H, $cursor, 'COUNT', $count)
for i = 1, #part[2], 2 do
  local field, value = part[2][i], part[2][i + 1]
  local kind, rest = byte(field), sub(field, 2)
  if kind == $s or kind == $k or kind == $w then
    if ended(rest) then call('HDEL', H, field) end
  elseif kind == $b then
    if ended(sub(rest, 1, 16)) then call('HDEL', H, field) end -- those of a session that lives its process drops
  elseif kind == $r and grace() == 0 and call('LLEN', H .. ':l:' .. rest) == 0 then
    call('HDEL', H, field)
  end
end
if part[1] == '0' then
  call('ZREMRANGEBYSCORE', Z, '-inf', '(' .. num(before))
  call('HDEL', H, 'g')
end
return { 'OK', part[1], num(now) }
