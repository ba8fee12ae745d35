-- KEYS[1] is the fence; the other keys are the caller's.
-- ARGV[1] is the token, ARGV[2] the holder; the others are the caller's.
--
-- Tokens have up to 19 digits and a Lua number keeps 15, so they are compared as
-- text: decimal numbers without leading zeros, first by length.

local keys, argv = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 3, #ARGV do argv[i - 2] = ARGV[i] end

local function admitted(KEYS, ARGV)
--BODY
end

local mine, kept = ARGV[1], redis.call('HGET', KEYS[1], 'token')
if kept and (#kept > #mine or #kept == #mine and kept > mine) then
  return {0, kept, redis.call('HGET', KEYS[1], 'holder') or ''}
end
if kept ~= mine then
  redis.call('HSET', KEYS[1], 'token', mine, 'holder', ARGV[2])
end
return {1, admitted(keys, argv)}
