-- Keeps a session alive if nothing else is to be done: the server has the run id and the
-- incarnation in which the session was opened, the session has not ended, and none of its
-- claims was broken. It stands before all of keepalive.lua and costs a quarter of it.
-- ARGV[7] incarnation in 7 bytes, [8] ttl in ms
if RUN_ID ~= '' then
  local found = redis.call('HMGET', KEYS[1], 'm', 's' .. ARGV[6], 'k' .. ARGV[6])
  if found[1] and found[2] and not found[3] and string.sub(found[1], 1, 7) == ARGV[7] then
    local t = redis.call('TIME')
    local now, till = t[1] * 1000 + math.floor(t[2] / 1000), struct.unpack('>I6', found[2])
    local renewed = now + 1 + ARGV[8]
    if till > now and till <= renewed then
      redis.call('HSET', KEYS[1], 's' .. ARGV[6], struct.pack('>I6', renewed) .. string.sub(found[2], 7))
      return { 'OK', '', string.format('%.0f', t[1] * 1000000 + t[2]) }
    end
  end
end
