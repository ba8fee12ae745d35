-- Begins a new incarnation if it is time for one, as every call does (R2), and makes tickets.
-- Replies: OK, incarnation, 1 if there is grace, max_ttl in ms
refill()
return { 'OK', num(inc), this.grace and 1 or 0, num(this.max) }
