-- ends returns when a session ends, 0 if the whole script has to find out. It stands before
-- ask.lua and pass.lua. Keep-alives by plain commands move the end in the sorted set only, so what
-- is noted in the session may be over; then the other end is read, and noted for the next call.
local function ends(sid, raw, now)
  local till = struct.unpack('>I6', raw)
  if till > now then return till end
  till = tonumber(redis.call('ZSCORE', KEYS[#KEYS], sid) or '0')
  if till <= now or till > now + 1 + cmsgpack.unpack(string.sub(raw, 15))[3] then return 0 end -- or the clock was ahead
  redis.call('HSET', KEYS[1], 's' .. sid, struct.pack('>I6', till) .. string.sub(raw, 7))
  return till
end
