-- Many attempts and withdrawals of one session in one call. Whatever is simple is
-- done here with two or three commands; the rest goes through the scripts that
-- are included below.
--
-- KEYS[1]  the bucket
-- ARGV[1] to [8] as in lib.lua
-- ARGV[9]  session id, [10] its epoch in 7 bytes, [11] the marker as it was,
-- [12] the end of grace in ms; then three for each operation:
--   A or T   attempt, in line or not, and the counter not to fall below, if any;
--            name; id, epoch, incarnation, record
--   W        withdraw; name; id
--   An id is the session's 16 bytes and the seq in 6.
-- Replies: for each operation what attempt.lua or withdraw.lua would reply.
local H = KEYS[1]

--@include slot

local function attempt(ARGV)
--@include lib attempt
end

local function withdraw(ARGV)
--@include lib withdraw
end

local common = { ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9] }

local function slow(fn, ...)
  local args = { unpack(common) }
  for _, a in ipairs({ ... }) do args[#args + 1] = a end
  return fn(args)
end

-- The fast way needs three things to be sure: the marker is the one the session
-- was opened under, a subscriber proves that the server is still in that life,
-- and the session lives.
local fast, now = false, 0
if ARGV[6] ~= '' and redis.call('HGET', H, 'm') == ARGV[11] and redis.call('PUBSUB', ARGV[8], ARGV[6])[2] > 0 then
  local raw = redis.call('HGET', H, 's' .. ARGV[9])
  if raw and string.sub(raw, 7, 13) == ARGV[10] then
    local clock = redis.call('TIME')
    now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    fast = struct.unpack('>I6', raw) > now and now >= tonumber(ARGV[12])
  end
end

local replies = {}
for i = 13, #ARGV, 3 do
  local op, name, blob = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local field, reply = 'l' .. name, nil
  if op == 'W' then
    local held = fast and redis.call('HGET', H, field)
    if held and string.byte(held) == 88 and string.sub(held, 15, 36) == blob then
      redis.call('HDEL', H, field)
      reply = { 'OK', 2 }
    else
      reply = slow(withdraw, string.format('%.0f', struct.unpack('>I6', blob, 17)), name, '0', '0')
    end
  else
    local seq = string.format('%.0f', struct.unpack('>I6', blob, 17))
    local floor, own = string.sub(op, 2), slot(name)
    if floor == '' then floor = '0' end
    -- Free, nobody in line, and not buried: only then is it simple.
    local found = fast and redis.call('HMGET', H, field, 'q' .. name, 'b' .. ARGV[9] .. seq, own, 'c')
    if found and not found[1] and not found[2] and not found[3] then
      local counter, record
      if found[4] or floor ~= '0' then
        counter = math.max(tonumber(found[4] or '0') + 1, found[5] + 1, tonumber(floor))
        record = 'X' .. struct.pack('>I7I6', counter, now) .. blob
        redis.call('HSET', H, own, string.format('%.0f', counter), field, record)
      else
        counter = redis.call('HINCRBY', H, 'c', 1)
        redis.call('HSET', H, field, 'X' .. struct.pack('>I7I6', counter, now) .. blob)
      end
      reply = { 'GRANTED', string.format('%.0f', counter), '0' }
    else
      reply = slow(attempt, seq, name, '0', '1', '0', '', string.sub(blob, 37), '0', '0',
        string.byte(op) == 65 and '1' or '0', floor, '0')
    end
  end
  replies[#replies + 1] = reply
end
return replies
