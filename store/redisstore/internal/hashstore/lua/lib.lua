-- A lock in Redisson's format is a hash: a field for its holder, and the time to live of the
-- key is the lease. Beside it, in the field DATA, is what fencelock keeps of a grant; Redisson
-- reads no field but its own. KEYS[1] to KEYS[3] are of the caller's session:
--   hash:  ttl, b<seq> a broken claim, d<seq> a broken claim that was withdrawn
--   zset:  the granted claims, "<seq>:<end of MinHold>:<end of MaxHold>:<key>" by seq
--   zset:  the tombstones, seq by time
local SESSION, CLAIMS, TOMBSTONES = KEYS[1], KEYS[2], KEYS[3]
local DATA, KEPT = 'fencelock', 'fencelock-kept'

local function number(v) return string.format('%.0f', v) end

-- micros is the server's clock; doubles are exact up to 9e15.
local function micros()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- named is the name of a companion key or channel, by Redisson's rule.
local function named(prefix, key)
  if string.find(key, '{', 1, true) then return prefix .. ':' .. key end
  return prefix .. ':{' .. key .. '}'
end

-- wake lets the waiters of all processes try. Redisson on a cluster listens on sharded channels,
-- or on plain ones, by its version. A server before 7.0 has no SPUBLISH.
local function wake(key, sharded)
  local channel = named('redisson_lock__channel', key)
  redis.call('PUBLISH', channel, '0')
  if sharded == '1' then redis.pcall('SPUBLISH', channel, '0') end
end

-- next_token continues the sequence of RFencedLock. The counter is left above the numbers of
-- local handoffs. The clock is the floor, because the key may be lost or deleted.
local function next_token(key, now)
  local counter = named('redisson_lock_token', key)
  local last = tonumber(redis.call('GET', counter) or '0')
  local token = (math.floor(math.max(last, now) / 256) + 1) * 256
  redis.call('SET', counter, number(token + 255))
  return number(token)
end

-- claim is the entry of a granted claim.
local function claim_of(seq)
  local found = redis.call('ZRANGEBYSCORE', CLAIMS, seq, seq)[1]
  if not found then return nil end
  local min, max, key = string.match(found, '^%d+:(%d+):(%d+):(.*)$')
  return { entry = found, min = tonumber(min), max = tonumber(max), key = key }
end

-- lease is for how long in ms a lock is to stay: the TTL, MinHold if it is longer, MaxHold if it
-- is shorter.
local function lease(ttl, min, max, now)
  local rest = ttl
  if min > now then rest = math.max(rest, math.ceil((min - now) / 1000)) end
  if max > 0 then rest = math.min(rest, math.ceil((max - now) / 1000)) end
  return number(math.max(rest, 1))
end

-- let_go ends a grant: the lock is free, or kept for as long as MinHold and keep demand.
local function let_go(key, holder, min, keep, now, sharded)
  local rest = math.max(keep, math.ceil((min - now) / 1000))
  if rest > 0 then
    redis.call('HDEL', key, holder)
    redis.call('HSET', key, KEPT, 1)
    redis.call('PEXPIRE', key, number(rest))
  else
    redis.call('DEL', key)
    wake(key, sharded)
  end
end

-- state is what the lock is, for the caller to read: its time to live, the clock and its fields.
local function state(key)
  return { redis.call('PTTL', key), number(micros()), redis.call('HGETALL', key) }
end
