-- KEYS[4] is the lock. ARGV: holder, seq, record, MinHold and MaxHold in ms, 1 for a token, the
-- beginning of the keys of sessions.
local key, holder, seq, record = KEYS[4], ARGV[1], ARGV[2], ARGV[3]
local min_hold, max_hold = tonumber(ARGV[4]), tonumber(ARGV[5])
local ttl = tonumber(redis.call('HGET', SESSION, 'ttl') or '0')
if ttl == 0 then return { 'gone' } end
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' and kind ~= 'hash' then return { 'kind', kind } end
if redis.call('HEXISTS', key, 'mode') == 1 then return { 'kind', 'RReadWriteLock' } end
-- A waiter of a fair lock listens elsewhere, and would be passed over.
if redis.call('EXISTS', named('redisson_lock_queue', key)) == 1 then return { 'kind', 'RFairLock' } end
if redis.call('ZSCORE', TOMBSTONES, seq) then return { 'absent' } end
local now = micros()
local function granted(token, max)
  return { 'granted', token, max > 0 and number(math.max(0, math.floor((max - now) / 1000))) or '0' }
end
if redis.call('HEXISTS', key, holder) == 1 then
  local token, _, _, max = string.match(redis.call('HGET', key, DATA), '^(%d+) (%d+) (%d+) (%d+) ')
  return granted(token, tonumber(max))
end
if claim_of(seq) or redis.call('HEXISTS', SESSION, 'b' .. seq) == 1 or redis.call('HEXISTS', SESSION, 'd' .. seq) == 1 then
  return { 'absent' } -- it was granted, and has ended or was broken
end
if kind == 'hash' then return { 'busy', state(key, ARGV[7]) } end
local min = min_hold > 0 and now + min_hold * 1000 or 0
local max = max_hold > 0 and now + max_hold * 1000 or 0
local token = ARGV[6] == '1' and next_token(key, now) or '0'
redis.call('HSET', key, holder, 1, DATA, table.concat({ token, number(now), number(min), number(max), record }, ' '))
redis.call('PEXPIRE', key, lease(ttl, min, max, now))
redis.call('ZADD', CLAIMS, seq, table.concat({ seq, number(min), number(max), 'x', key }, ':'))
redis.call('PEXPIRE', CLAIMS, ttl)
return granted(token, max)
