-- Drops what dead processes have left in some locks, and grants to the next. It stops after about half a
-- millisecond. A script cannot read how long it has run, so it counts its work: 3 µs or less each.
-- ARGV began due names
--   began  when the sweep began in ms
--   due    1 if the names are of K: those that are due are taken out of it
--   names  and after
-- Replies: OK, how many of the names are done, how many were due
local began, work = tonumber($began), 0
local function late() return work > 150 end

-- readers drops the dead grants of a lock with many, and returns whether all were checked.
local function readers(k)
  repeat
    local few = k.shared.count <= SOME
    local round = clean(k, began)
    work = work + SOME
    if few or k.form ~= 'S' or round and k.shared.began >= began then return true end
  until late()
  return false
end

-- alone handles a lock with one exclusive holder and no queue, which nearly all locks are, and returns whether
-- it is one. Without it each lock that a dead process leaves costs eight calls, not two, and a process may leave a million.
local function alone(name)
  local L = H .. ':l:' .. name
  local first = call('LRANGE', L, 0, 2)
  local raw = first[2]
  if #first ~= 2 or not is_ticket(first[1]) then return false end
  if byte(raw) == $A then -- what is kept, and has ended
    local grants = cmsgpack.unpack(sub(raw, 2))
    local g = grants[1]
    if #grants ~= 1 or g[SID] ~= '' or now < g[MAXEND] or call('HEXISTS', H, 'r' .. name) == 1 then return false end
    call('LPOP', L, 2)
    return true
  end
  if byte(raw) ~= $X and byte(raw) ~= $G then return false end
  local sid, _, generation, of = short(raw)
  local s = session(sid)
  if not s then
    call('LPOP', L, 2) -- r<name>, if it is there, tidy.lua removes
    return true
  end
  return s.generation == generation and of == inc and s.marks == 0 -- it stands
end

-- sweep handles any other lock, and returns whether it is done.
local function sweep(i)
  local before = call('LLEN', H .. ':l:' .. ARGV[i])
  stopped = false
  local k, dead, length = refresh(ARGV[i]), {}, 0
  work = work + 4 + math.max(0, before - call('LLEN', k.L)) -- two elements for each dead claim in front
  local more = stopped
  if k.form == 'S' and k.shared.count > SOME then
    more, stopped = not readers(k), false
    promote(k)
  end
  for _, ticket, raw in queue(k) do
    length, work = length + 1, work + 1
    if #dead == MANY then
      more = true
      break
    end
    if not ticket or not waits(claim_of(raw, k.name)) then dead[#dead + 1] = { ticket, raw } end
  end
  for j, d in ipairs(dead) do
    unqueue(k, d[1], d[2])
    work = work + 1 + length / 50 -- LREM compares every element
    if late() and j >= 32 and j < #dead then
      more = true
      break
    end
  end
  return not more
end

-- one sweeps a lock, and returns whether it is done.
local function one(i)
  if not alone(ARGV[i]) then return sweep(i) end
  work = work + 2
  return true
end

-- due is one for a name of K. A key that is not a list must not keep the others there: it is tried again later.
local due_names = 0
local function due(i)
  work = work + 1
  local till = call('ZSCORE', K, ARGV[i])
  if not till or tonumber(till) > now then return true end -- another process was here, or it was kept again
  due_names = due_names + 1
  local fine, done = pcall(one, i)
  if not fine then
    call('ZADD', K, num(after(3600000)), ARGV[i])
    return true
  end
  if done then call('ZREM', K, ARGV[i]) end
  return done
end

local handle = $due == '1' and due or one
for i = @names, #ARGV do
  if not handle(i) then return { 'OK', i - @names, due_names } end
  if late() then return { 'OK', i - @names + 1, due_names } end
end
return { 'OK', #ARGV - @names + 1, due_names }
