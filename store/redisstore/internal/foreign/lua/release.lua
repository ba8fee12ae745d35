-- KEYS[4] is the lock. ARGV: holder, seq, for how long to keep it in ms, 1 for a tombstone, 1 for
-- sharded channels or the channel of a string, 1 for an RReadWriteLock and 2 for a string, the number
-- of the opening if the claim was granted and must still be. Replies gone if the session is, too, and
-- such a claim with it.
local key, holder, seq = KEYS[4], ARGV[1], ARGV[2]
local now = micros()
local ttl = redis.call('HGET', SESSION, 'ttl')
if ARGV[4] == '1' and ttl then
  redis.call('ZADD', TOMBSTONES, number(now), seq)
  redis.call('PEXPIRE', TOMBSTONES, ttl)
end
local claim = claim_of(seq)
if claim then redis.call('ZREM', CLAIMS, claim.entry) end
redis.call('HDEL', RECORDS, seq)
local hash = redis.call('TYPE', key).ok == 'hash'
if ARGV[6] == '2' then
  if held_by('s', key, holder) then
    free_string(key, ARGV[5])
    return 'granted'
  end
elseif hash and ARGV[6] == '1' then
  for mode, leave in pairs({ r = leave_read, w = leave_write }) do
    if redis.call('HEXISTS', key, field_of(mode, holder)) == 1 then
      leave(key, holder, ARGV[5])
      return 'granted'
    end
  end
elseif hash and redis.call('HEXISTS', key, holder) == 1 then
  local min = tonumber(string.match(redis.call('HGET', key, DATA), '^%d+ %d+ (%d+) '))
  let_go(key, holder, min, tonumber(ARGV[3]), now, ARGV[5])
  return 'granted'
end
if not ttl then return ARGV[7] ~= '' and 'gone' or 'absent' end
local broken = redis.call('HDEL', SESSION, 'b' .. seq) == 1
local ended = claim and claim.max > 0 and now >= claim.max
if broken or (claim or newest(ARGV[7])) and not ended then redis.call('HSET', SESSION, 'd' .. seq, 1) end
return redis.call('HEXISTS', SESSION, 'd' .. seq) == 1 and 'broken' or 'absent'
