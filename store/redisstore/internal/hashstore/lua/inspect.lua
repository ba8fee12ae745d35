-- KEYS[4] is the lock. ARGV: the beginning of the keys of sessions.
local kind = redis.call('TYPE', KEYS[4]).ok
if kind == 'none' then return { 'free' } end
if kind ~= 'hash' then return { 'kind', kind } end
return { 'held', state(KEYS[4], ARGV[1]) }
