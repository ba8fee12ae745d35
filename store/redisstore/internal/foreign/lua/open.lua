-- ARGV: ttl in ms. Replies 1 if the session is new, 0 if it was there, and how often it was opened.
local fresh = redis.call('EXISTS', SESSION) == 0
if fresh then redis.call('DEL', CLAIMS, TOMBSTONES, RECORDS) end
redis.call('HSET', SESSION, 'ttl', ARGV[1])
redis.call('PEXPIRE', SESSION, ARGV[1])
return { fresh and 1 or 0, redis.call('HINCRBY', SESSION, 'opened', 1) }
