-- unexpected is the time in ms after which no call of a tombstoned claim can still arrive:
-- many times as long as the network, or a server that stalls, delays a call.
local unexpected = 3600000

-- sweep removes what processes that died have left behind, one slice of the bucket per call.
-- The cursor is in the bucket, so that all processes share one sweep. sweep returns 1 if it
-- removed more than a quarter of what it saw: then there is likely more to remove.
local function sweep(count)
  local at = redis.call('HGET', H, 'g') or '0'
  local part = redis.call('HSCAN', H, at, 'COUNT', count)
  local gone, seen = 0, #part[2] / 2
  local function drop(field) gone = gone + redis.call('HDEL', H, field) end
  for i = 1, #part[2], 2 do
    local field = part[2][i]
    local kind, rest = string.byte(field), string.sub(field, 2)
    if kind == 115 then -- s: a session
      if not session(rest) then drop(field) end
    elseif kind == 107 then -- k: broken claims of a session
      if not session(rest) then drop(field) end
    elseif kind == 98 then -- b: a claim that must not be granted
      local owner, mark = string.sub(rest, 1, 16), part[2][i + 1]
      if not session(owner) then
        drop(field)
      elseif string.byte(mark) == 49 and now - struct.unpack('>I6', mark, 2) > unexpected then
        unmark(owner, rest, mark)
        gone = gone + 1
      end
    elseif kind == 108 then -- l: refresh drops grants that ended, and grants to the next claim
      refresh(rest)
      gone = gone + 1 - redis.call('HEXISTS', H, field)
    elseif kind == 119 then -- w: a queued claim; its place is in the last bytes
      local name, place = string.sub(rest, 1, -8), struct.unpack('>I6', rest, #rest - 5)
      local e = waiter(name, place)
      if e and not stands(e) then
        dequeue(name, place, id_of(e))
        gone = gone + 1
      end
    elseif kind == 114 and grace() == 0 then -- r: of a lock that was released during grace
      if redis.call('HEXISTS', H, 'l' .. rest) == 0 then drop(field) end
    end
  end
  if part[1] == '0' then redis.call('HDEL', H, 'g') else redis.call('HSET', H, 'g', part[1]) end
  return gone * 4 > seen and 1 or 0
end
