-- Ends a session and some of its grants. ARGV: the session's id, how many, 1 for sharded channels.
-- Replies how many are left.
redis.call('DEL', SESSION, TOMBSTONES)
local now = micros()
for _, entry in ipairs(redis.call('ZRANGE', CLAIMS, 0, tonumber(ARGV[2]) - 1)) do
  local seq, min, mode, key = string.match(entry, '^(%d+):(%d+):%d+:(%l):(.*)$')
  local holder = ARGV[1] .. ':' .. seq
  if held_by(mode, key, holder) then
    if mode == 'r' then
      leave_read(key, holder, ARGV[3])
    elseif mode == 'w' then
      leave_write(key, holder, ARGV[3])
    elseif mode == 's' then
      redis.call('DEL', key)
    else
      let_go(key, holder, tonumber(min), 0, now, ARGV[3])
    end
  end
  redis.call('ZREM', CLAIMS, entry)
end
return redis.call('ZCARD', CLAIMS)
