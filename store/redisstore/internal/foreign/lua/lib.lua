-- A lock in Redisson's format is a hash: a field for its holder, and the time to live of the
-- key is the lease. Beside it, in the field DATA, is what fencelock keeps of a grant; Redisson
-- reads no field but its own. An RReadWriteLock has the field mode, and all fields count there,
-- so DATA is kept with the session. KEYS[1] to KEYS[3] are of the caller's session:
--   hash:  ttl, how often it was opened, b<seq> a broken claim, d<seq> a broken claim that was
--          withdrawn
--   zset:  the granted claims, "<seq>:<end of MinHold>:<end of MaxHold>:<mode>:<key>" by seq;
--          the mode is x for an RLock, w and r for the sides of an RReadWriteLock, s for a string
--   zset:  the tombstones, seq by time
-- Beside them is a hash with DATA of claims, by seq.
local SESSION, CLAIMS, TOMBSTONES = KEYS[1], KEYS[2], KEYS[3]
local RECORDS = SESSION .. ':records'
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
local function wake(channel, key, text, sharded)
  channel = named(channel, key)
  redis.call('PUBLISH', channel, text)
  if sharded == '1' then redis.pcall('SPUBLISH', channel, text) end
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

-- newest reports whether a caller opened the session last. What others know of its claims is old.
local function newest(opened) return redis.call('HGET', SESSION, 'opened') == opened end

-- claim is the entry of a granted claim.
local function claim_of(seq)
  local found = redis.call('ZRANGEBYSCORE', CLAIMS, seq, seq)[1]
  if not found then return nil end
  local min, max, mode, key = string.match(found, '^%d+:(%d+):(%d+):(%l):(.*)$')
  return { entry = found, min = tonumber(min), max = tonumber(max), mode = mode, key = key }
end

-- lease is for how long in ms a lock is to stay: the TTL, MinHold if it is longer, MaxHold if it
-- is shorter.
local function lease(ttl, min, max, now)
  local rest = ttl
  if min > now then rest = math.max(rest, math.ceil((min - now) / 1000)) end
  if max > 0 then rest = math.min(rest, math.ceil((max - now) / 1000)) end
  return number(math.max(rest, 1))
end

-- let_go ends a grant: the lock is free, or kept for as long as MinHold and keep demand. Waiters of
-- a kept lock are woken, too: it ends before the time to live that they have read.
local function let_go(key, holder, min, keep, now, sharded)
  local rest = math.max(keep, math.ceil((min - now) / 1000))
  if rest > 0 then
    redis.call('HDEL', key, holder)
    redis.call('HSET', key, KEPT, 1)
    redis.call('PEXPIRE', key, number(rest))
  else
    redis.call('DEL', key)
  end
  wake('redisson_lock__channel', key, '0', sharded)
end

-- free_string ends a grant of a string. channel is where its waiters listen, empty if nowhere.
local function free_string(key, channel)
  redis.call('DEL', key)
  if channel ~= '' then redis.call('PUBLISH', channel, key) end
end

-- alive is the key that reports how long one hold of a reader lasts.
local function alive(key, holder, i)
  local name = holder .. ':rwlock_timeout:' .. i
  if string.find(key, '{', 1, true) then return key .. ':' .. name end
  return '{' .. key .. '}:' .. name
end

-- MANY is from how many fields on a lock is read in part: a script must not go over all readers each time.
local MANY = 64

-- some returns fields of a lock with many, from a cursor on, and the next cursor.
local function some(key, cursor)
  local part = redis.call('HSCAN', key, cursor, 'COUNT', MANY)
  return part[2], part[1]
end

-- longest_of is how long the longest of some holds lasts, 0 if none does. With any, the first that lasts will do.
local function longest_of(key, fields, any)
  local longest = 0
  for i = 1, #fields, 2 do
    for hold = 1, math.min(tonumber(fields[i + 1]) or 0, 1000) do
      longest = math.max(longest, redis.call('PTTL', alive(key, fields[i], hold)))
      if any and longest > 0 then return longest end
    end
  end
  return longest
end

-- leave_read ends the hold of a reader. As in Redisson, the hash lasts as long as the longest hold
-- of the others, and a reader without a live hold goes with it. Of many readers one that lives will do:
-- the hash then lasts as long as it would have with the reader that leaves.
local function leave_read(key, holder, sharded)
  redis.call('HDEL', key, holder)
  redis.call('DEL', alive(key, holder, 1))
  local longest, cursor, fields = 0, '0', nil
  if redis.call('HLEN', key) > MANY then
    repeat
      fields, cursor = some(key, cursor)
      if longest_of(key, fields, true) > 0 then return end
    until cursor == '0'
  else
    longest = longest_of(key, redis.call('HGETALL', key))
  end
  if longest > 0 then
    redis.call('PEXPIRE', key, longest)
  elseif redis.call('HGET', key, 'mode') ~= 'write' then
    redis.call('DEL', key)
    wake('redisson_rwlock', key, '0', sharded)
  end
end

-- leave_write ends the hold of a writer. Readers that are left are of a Java thread that also wrote.
local function leave_write(key, holder, sharded)
  redis.call('HDEL', key, holder .. ':write')
  if redis.call('HLEN', key) > 1 then
    redis.call('HSET', key, 'mode', 'read')
  else
    redis.call('DEL', key)
  end
  wake('redisson_rwlock', key, '1', sharded)
end

-- field_of is the field by which a claim holds its lock.
local function field_of(mode, holder)
  if mode == 'w' then return holder .. ':write' end
  return holder
end

-- held_by reports whether a claim holds its lock, whatever has become of the key.
local function held_by(mode, key, holder)
  if mode == 's' then return redis.pcall('GET', key) == holder end
  return redis.pcall('HEXISTS', key, field_of(mode, holder)) == 1
end

-- renew extends the lease of a grant to rest, in ms, and reports whether its claim holds the lock.
local function renew(mode, key, holder, rest)
  if not held_by(mode, key, holder) then return false end
  if mode == 'r' then
    redis.call('SET', alive(key, holder, 1), 1, 'PX', rest)
    rest = math.max(rest, redis.call('PTTL', key))
  end
  redis.call('PEXPIRE', key, rest)
  return true
end

-- finish ends a grant if its claim still holds the lock. waking is the channel of a string, or 1 for
-- sharded channels.
local function finish(mode, key, holder, min, now, waking)
  if not held_by(mode, key, holder) then return end
  if mode == 'r' then
    leave_read(key, holder, waking)
  elseif mode == 'w' then
    leave_write(key, holder, waking)
  elseif mode == 's' then
    free_string(key, waking)
  else
    let_go(key, holder, min, 0, now, waking)
  end
end

-- broken are the claims that were broken and not withdrawn yet.
local function broken()
  local seqs = {}
  for _, field in ipairs(redis.call('HKEYS', SESSION)) do
    if string.sub(field, 1, 1) == 'b' then seqs[#seqs + 1] = string.sub(field, 2) end
  end
  return seqs
end

-- keep_record keeps what is shown of a claim, where the lock itself has no place for it.
local function keep_record(seq, record, ttl)
  redis.call('HSET', RECORDS, seq, table.concat({ 0, number(micros()), 0, 0, record }, ' '))
  redis.call('PEXPIRE', RECORDS, ttl)
end

-- state is what the lock is, for the caller to read: its time to live, the clock, its fields, and
-- what sessions keep of its holders. sessions begins the keys of sessions. With few, not all of many readers are shown.
local function state(key, sessions, few)
  local kept, fields = {}, nil
  if redis.call('TYPE', key).ok == 'string' then
    fields = { redis.call('GET', key), '1' }
  elseif few and redis.call('HLEN', key) > MANY then
    local cursor, part = '0', nil
    fields = { 'mode', redis.call('HGET', key, 'mode') }
    repeat -- a part may be empty
      part, cursor = some(key, cursor)
      for i = 1, #part, 2 do
        if part[i] ~= 'mode' then fields[#fields + 1], fields[#fields + 2] = part[i], part[i + 1] end
      end
    until #fields > 2 or cursor == '0'
  else
    fields = redis.call('HGETALL', key)
  end
  for i = 1, #fields, 2 do
    local id, seq = string.match(fields[i], '^([%x-]+):(%d+)')
    kept[#kept + 1] = id and redis.call('HGET', sessions .. id .. ':records', seq) or ''
  end
  return { redis.call('PTTL', key), number(micros()), fields, kept }
end
