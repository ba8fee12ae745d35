-- Grants to the first in the queue after a holder was removed by plain commands (Q5).
-- ARGV[6] session id of the caller, [7] name
-- Replies: OK, 1 if dead claims are left in front of the queue
refresh(ARGV[7])
return { 'OK', stopped and 1 or 0 }
