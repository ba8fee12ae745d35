-- KEYS[4] is the lock. ARGV: the beginning of the keys of sessions, the type that it should have.
local kind = redis.call('TYPE', KEYS[4]).ok
if kind == 'none' then return { 'free' } end
if kind ~= ARGV[2] then return { 'kind', kind } end
return { 'held', state(KEYS[4], ARGV[1]) }
