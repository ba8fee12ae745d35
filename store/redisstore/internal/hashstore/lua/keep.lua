-- Renews some of the leases of a session, by the number of the claim. ARGV: the number that the
-- last call ended with, 0 in the first, the session's id, how many. Replies the number to go on
-- with, 0 at the end, and then the broken claims.
local ttl = tonumber(redis.call('HGET', SESSION, 'ttl') or '0')
if ttl == 0 then return { 'gone' } end
local now = micros()
if ARGV[1] == '0' then
  redis.call('PEXPIRE', SESSION, ttl)
  redis.call('PEXPIRE', CLAIMS, ttl)
  -- An attempt that is under way for an hour has no connection any more.
  redis.call('ZREMRANGEBYSCORE', TOMBSTONES, '-inf', number(now - 3600 * 1000000))
  redis.call('PEXPIRE', TOMBSTONES, ttl)
end
local some = redis.call('ZRANGEBYSCORE', CLAIMS, '(' .. ARGV[1], '+inf', 'LIMIT', 0, ARGV[3])
local last = '0'
for _, entry in ipairs(some) do
  local seq, min, max, mode, key = string.match(entry, '^(%d+):(%d+):(%d+):(%l):(.*)$')
  local holder = ARGV[2] .. ':' .. seq
  min, max, last = tonumber(min), tonumber(max), seq
  if held_by(mode, key, holder) then
    local rest = lease(ttl, min, max, now)
    if mode == 'r' then
      redis.call('SET', alive(key, holder, 1), 1, 'PX', rest)
      rest = math.max(rest, redis.call('PTTL', key))
    end
    redis.call('PEXPIRE', key, rest)
  else -- forced open, or gone with the server's data
    redis.call('ZREM', CLAIMS, entry)
    if max == 0 or now < max then redis.call('HSET', SESSION, 'b' .. seq, 1) end
  end
end
if #some == tonumber(ARGV[3]) then return { 'kept', last } end
local broken = {}
for _, field in ipairs(redis.call('HKEYS', SESSION)) do
  if string.sub(field, 1, 1) == 'b' then broken[#broken + 1] = string.sub(field, 2) end
end
return { 'kept', '0', broken }
