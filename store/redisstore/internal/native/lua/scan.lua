-- Returns a part of the keys that match a pattern, of the node that keeps KEYS[1].
-- ARGV[1] cursor, [2] pattern, [3] how many keys to read
-- Replies: next cursor, keys
return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
