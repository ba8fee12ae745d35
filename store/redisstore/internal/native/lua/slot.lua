-- slot is the field with the counter of a name that several servers vote about
-- (package quorum): one of 256 in a bucket, so that claims for other names, which
-- arrive in another order on another server, seldom make the answers differ. The field
-- exists from the first attempt with a floor on; until then v counts.
local function slot(name)
  local x, y, z = byte(name, -3, -1)
  return 'c' .. (#name * 31 + x * 7 + (y or 0) * 13 + (z or 0) * 17) % 256
end
