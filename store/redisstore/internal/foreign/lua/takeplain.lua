-- Takes a lock that is a string. KEYS[4] is the lock. ARGV: holder, seq, record, the beginning of the
-- keys of sessions.
local key, holder, seq = KEYS[4], ARGV[1], ARGV[2]
local ttl = tonumber(redis.call('HGET', SESSION, 'ttl') or '0')
if ttl == 0 then return { 'gone' } end
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' and kind ~= 'string' then return { 'kind', kind } end
if redis.call('ZSCORE', TOMBSTONES, seq) then return { 'absent' } end
if held_by('s', key, holder) then return { 'granted', '0', '0' } end
if claim_of(seq) or redis.call('HEXISTS', SESSION, 'b' .. seq) == 1 or redis.call('HEXISTS', SESSION, 'd' .. seq) == 1 then
  return { 'absent' } -- it was granted, and was deleted or has ended
end
if kind == 'string' then return { 'busy', state(key, ARGV[4]) } end
redis.call('SET', key, holder, 'PX', ttl)
redis.call('ZADD', CLAIMS, seq, table.concat({ seq, 0, 0, 's', key }, ':'))
redis.call('PEXPIRE', CLAIMS, ttl)
keep_record(seq, ARGV[3], ttl)
return { 'granted', '0', '0' }
