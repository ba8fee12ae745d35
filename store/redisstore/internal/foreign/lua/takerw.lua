-- Takes one side of an RReadWriteLock. KEYS[4] is the lock. ARGV: holder, seq, record, r or w, 1 for
-- sharded channels, the beginning of the keys of sessions.
local key, holder, seq, want = KEYS[4], ARGV[1], ARGV[2], ARGV[4]
local ttl = tonumber(redis.call('HGET', SESSION, 'ttl') or '0')
if ttl == 0 then return { 'gone' } end
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' and kind ~= 'hash' then return { 'kind', kind } end
local mode = redis.call('HGET', key, 'mode')
if kind == 'hash' and not mode then return { 'kind', 'RLock' } end
if redis.call('ZSCORE', TOMBSTONES, seq) then return { 'absent' } end
local granted = { 'granted', '0', '0' }

-- hold takes the side that is wanted.
local function hold()
  if want == 'w' then
    redis.call('HSET', key, 'mode', 'write', holder .. ':write', 1)
    redis.call('PEXPIRE', key, ttl)
  else
    redis.call('HSET', key, 'mode', 'read', holder, 1)
    redis.call('SET', alive(key, holder, 1), 1, 'PX', ttl)
    redis.call('PEXPIRE', key, math.max(ttl, redis.call('PTTL', key)))
  end
  redis.call('ZADD', CLAIMS, seq, table.concat({ seq, 0, 0, want, key }, ':'))
  redis.call('PEXPIRE', CLAIMS, ttl)
end

local claim = claim_of(seq)
if claim then
  if redis.call('HEXISTS', key, field_of(claim.mode, holder)) == 0 then return { 'absent' } end
  if claim.mode == 'w' and want == 'r' then -- a downgrade
    redis.call('HDEL', key, holder .. ':write')
    redis.call('ZREM', CLAIMS, claim.entry)
    hold()
    wake('redisson_rwlock', key, '1', ARGV[5])
  end
  return granted
end
if redis.call('HEXISTS', SESSION, 'b' .. seq) == 1 or redis.call('HEXISTS', SESSION, 'd' .. seq) == 1 then
  return { 'absent' }
end
if mode and not (mode == 'read' and want == 'r') then return { 'busy', state(key, ARGV[6], true) } end
hold()
keep_record(seq, ARGV[3], ttl)
return granted
