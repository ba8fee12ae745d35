-- Compares claims of a session with what its process knows, after a part of the data was lost.
-- ARGV: the session's id, the kind of locks, 1 for sharded channels or the channel of strings, the
-- number of the opening, then the number of a claim and its key, again and again. A claim with a key
-- was granted, and is not among the claims: it is put back if it holds its lock, and broken otherwise.
-- One without a key was withdrawn, and is freed. Replies the broken claims.
local id, kind, waking = ARGV[1], ARGV[2], ARGV[3]
local ttl = tonumber(redis.call('HGET', SESSION, 'ttl') or '0')
if ttl == 0 then return { 'gone' } end
if not newest(ARGV[4]) then return { 'kept', broken() } end
local now = micros()
local MODES = { ['0'] = { 'x' }, ['1'] = { 'w', 'r' }, ['2'] = { 's' } }

-- put_back makes the entry of a claim again if it holds its lock, and reports whether it does. No
-- other claim held the lock in between: the holder's field would be gone.
local function put_back(seq, key)
  local holder = id .. ':' .. seq
  for _, mode in ipairs(MODES[kind]) do
    if held_by(mode, key, holder) then
      local min, max = '0', '0'
      if mode == 'x' then min, max = string.match(redis.call('HGET', key, DATA), '^%d+ %d+ (%d+) (%d+) ') end
      redis.call('ZADD', CLAIMS, seq, table.concat({ seq, min, max, mode, key }, ':'))
      redis.call('PEXPIRE', CLAIMS, ttl)
      return renew(mode, key, holder, lease(ttl, tonumber(min), tonumber(max), now))
    end
  end
  return false
end

for i = 5, #ARGV, 2 do
  local seq, key = ARGV[i], ARGV[i + 1]
  local claim = claim_of(seq)
  if key == '' then
    if claim then
      finish(claim.mode, claim.key, id .. ':' .. seq, claim.min, now, waking)
      redis.call('ZREM', CLAIMS, claim.entry)
      redis.call('HDEL', RECORDS, seq)
    end
  elseif not claim and not put_back(seq, key) then
    redis.call('HSET', SESSION, 'b' .. seq, 1)
  end
end
return { 'kept', broken() }
