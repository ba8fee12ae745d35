-- Begins a new incarnation if it is time for one, as every call does (R2), and makes tickets.
-- Replies: OK, incarnation
refill()
return { 'OK', num(inc) }
