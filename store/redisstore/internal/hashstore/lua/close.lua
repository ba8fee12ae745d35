-- Ends a session and some of its grants. ARGV: the session's id, how many, 1 for sharded channels.
-- Replies how many are left.
redis.call('DEL', SESSION, TOMBSTONES)
local now = micros()
for _, entry in ipairs(redis.call('ZRANGE', CLAIMS, 0, tonumber(ARGV[2]) - 1)) do
  local seq, min, key = string.match(entry, '^(%d+):(%d+):%d+:(.*)$')
  local holder = ARGV[1] .. ':' .. seq
  if redis.pcall('HEXISTS', key, holder) == 1 then let_go(key, holder, tonumber(min), 0, now, ARGV[3]) end
  redis.call('ZREM', CLAIMS, entry)
end
return redis.call('ZCARD', CLAIMS)
