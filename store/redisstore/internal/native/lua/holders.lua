-- Shows further holders of a lock that is held shared (I1).
-- ARGV name cursor
-- Replies: OK, next cursor or '0', holders
local grants, rest = some(lock($name), $cursor)
local holders = {}
for _, g in ipairs(grants) do
  if upheld(g) then holders[#holders + 1] = shown(g) end
end
return { 'OK', rest, holders }
