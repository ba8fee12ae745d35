-- KEYS[1] to KEYS[3] are of the session that holds the lock, KEYS[4] is the lock. ARGV: token,
-- holder, seq, 1 for sharded channels.
local key, seq = KEYS[4], ARGV[3]
if redis.call('TYPE', key).ok ~= 'hash' then return 'free' end
local data = redis.call('HGET', key, DATA)
if not data or string.match(data, '^(%d+) ') ~= ARGV[1] then return 'free' end
if redis.call('HEXISTS', key, ARGV[2]) == 0 then return 'other' end
redis.call('DEL', key)
local claim = claim_of(seq)
if claim then redis.call('ZREM', CLAIMS, claim.entry) end
if ARGV[2] ~= KEPT and redis.call('EXISTS', SESSION) == 1 then redis.call('HSET', SESSION, 'b' .. seq, 1) end
local token = next_token(key, micros())
wake('redisson_lock__channel', key, '0', ARGV[4])
return token
