-- Grants to the first in the queue after a holder was removed by plain commands (Q5), or drops the
-- next part of what is dead (Store.walk).
-- ARGV sid name
--   sid  of the caller or ''
-- Replies: OK, 1 if dead claims are left in front of the queue
refresh($name)
return { 'OK', stopped and 1 or 0 }
