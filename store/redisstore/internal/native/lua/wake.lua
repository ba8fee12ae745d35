-- Grants to the first in the queue after a holder was removed by plain commands (Q5), or drops the
-- next part of what is dead (Store.walk).
-- ARGV[6] session id of the caller or '', [7] name
-- Replies: OK, 1 if dead claims are left in front of the queue
refresh(ARGV[7])
return { 'OK', stopped and 1 or 0 }
