-- Ends a session and some of its grants. ARGV: the session's id, how many, 1 for sharded channels or
-- the channel of strings. Replies how many are left.
redis.call('DEL', SESSION, TOMBSTONES, RECORDS)
local now = micros()
for _, entry in ipairs(redis.call('ZRANGE', CLAIMS, 0, tonumber(ARGV[2]) - 1)) do
  local seq, min, mode, key = string.match(entry, '^(%d+):(%d+):%d+:(%l):(.*)$')
  finish(mode, key, ARGV[1] .. ':' .. seq, tonumber(min), now, ARGV[3])
  redis.call('ZREM', CLAIMS, entry)
end
return redis.call('ZCARD', CLAIMS)
