-- Shows the settings of a bucket, or changes one. A weaker one breaks what a session was promised that asks for more, so
-- such sessions are counted first. In a grace period not all of them have come back.
-- ARGV[6] 'grace' or 'max_ttl', or '' to show them; [7] the value, 1 or 0 or in ms; [8] 1 to change it, 0 to count only
-- Replies: OK, 1 if there is grace, max_ttl in ms, rest of grace in ms, how many sessions ask for more
local name, value, more = ARGV[6], tonumber(ARGV[7]), 0
if name ~= '' then
  for _, sid in ipairs(call('ZRANGEBYSCORE', Z, '(' .. num(now), '+inf')) do
    local s = session(sid)
    if s and (name == 'grace' and value == 0 and s[6] > 0 or name == 'max_ttl' and math.max(s[4], math.abs(s[6])) > value) then
      more = more + 1
    end
  end
  if more == 0 and (grace() == 0 or name == 'grace' and value == 1 or name == 'max_ttl' and value >= this.max) and ARGV[8] == '1' then
    if name == 'grace' then this.grace = value == 1 else this.max = value end
    this.till = 0
    write_marker(this)
  end
end
return { 'OK', this.grace and 1 or 0, num(this.max), num(grace()), more }
