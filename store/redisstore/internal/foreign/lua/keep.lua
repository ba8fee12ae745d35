-- Renews some of the leases of a session, by the number of the claim. ARGV: the number above which
-- to begin, the last number, the session's id, how many, 1 in the first script of a renewal, 1 in
-- the last one. Replies the number to continue above, 0 at the end, the claims that hold their
-- lock, and in the last script the broken claims.
local ttl = tonumber(redis.call('HGET', SESSION, 'ttl') or '0')
if ttl == 0 then return { 'gone' } end
local now = micros()
if ARGV[5] == '1' then
  redis.call('PEXPIRE', SESSION, ttl)
  redis.call('PEXPIRE', CLAIMS, ttl)
  redis.call('PEXPIRE', RECORDS, ttl)
  -- An attempt that is under way for an hour has no connection any more.
  redis.call('ZREMRANGEBYSCORE', TOMBSTONES, '-inf', number(now - 3600 * 1000000))
  redis.call('PEXPIRE', TOMBSTONES, ttl)
end
local some = redis.call('ZRANGEBYSCORE', CLAIMS, '(' .. ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[4])
local last, held = '0', {}
for _, entry in ipairs(some) do
  local seq, min, max, mode, key = string.match(entry, '^(%d+):(%d+):(%d+):(%l):(.*)$')
  min, max, last = tonumber(min), tonumber(max), seq
  if renew(mode, key, ARGV[3] .. ':' .. seq, lease(ttl, min, max, now)) then
    held[#held + 1] = seq
  else -- forced open, or gone with the server's data
    redis.call('ZREM', CLAIMS, entry)
    if max == 0 or now < max then redis.call('HSET', SESSION, 'b' .. seq, 1) end
  end
end
if #some < tonumber(ARGV[4]) or last == ARGV[2] then last = '0' end
return { 'kept', last, held, ARGV[6] == '1' and last == '0' and broken() or {} }
