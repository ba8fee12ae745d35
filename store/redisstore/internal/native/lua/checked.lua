-- checked reports whether the replication id in a marker was compared so lately that it counts. It stands
-- before all scripts that grant. The end of a check that was made while the clock was ahead does not count.
local function checked(m, now)
  local till = struct.unpack('>I6', m, 9)
  return now < till and till <= now + 1000
end
