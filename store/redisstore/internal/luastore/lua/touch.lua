-- Begins a new incarnation if it is time for one, as every call does (R2).
-- Replies: OK, incarnation
return { 'OK', num(inc) }
