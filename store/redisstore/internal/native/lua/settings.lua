-- Shows the settings of a bucket, or changes one. A weaker one breaks what a session was promised that asks for more, so
-- such sessions are counted first. In the grace period that began with a data loss not all of them have come back, and the
-- last ticket may be ahead of the clock, so none is made weaker. A stronger one has the rest of a grace period count, as if a process
-- asked for it. Grace is not switched off in that either: a process that asks for it may have found a loss. A max_ttl that nobody has
-- seen before the incarnation may be lowered: it may be a mistake that stops all locks for days.
-- ARGV setting value change
--   setting  'grace' or 'max_ttl', or '' to show them
--   value    1 or 0, or in ms
--   change   1 to change it, 0 to count only
-- Replies: OK, 1 if there is grace, max_ttl in ms, how many sessions ask for more, for how many ms
-- a grace period is in the way. It is changed if both are 0
local name, value, more, waits = $setting, tonumber($value), 0, 0
if name ~= '' then
  for _, sid in ipairs(call('ZRANGEBYSCORE', Z, '(' .. num(now), '+inf')) do
    local s = session(sid)
    if s and (name == 'grace' and value == 0 and s.declared > 0 or name == 'max_ttl' and math.max(s.ttl, math.abs(s.declared)) > value) then
      more = more + 1
    end
  end
  local weaker = name == 'grace' and value == 0 and this.grace or name == 'max_ttl' and value < this.max
  if weaker then waits = math.max(0, (name == 'grace' and this.over or math.min(this.first, this.over)) - now) end
  if more == 0 and waits == 0 and $change == '1' then
    if name == 'grace' then this.grace = value == 1 else this.max = value end
    if weaker then this.over = math.min(this.over, rest(this)) else finish(this) end
    this.till = 0
    write_marker(this)
  end
end
return { 'OK', this.grace and 1 or 0, num(this.max), more, num(waits) }
