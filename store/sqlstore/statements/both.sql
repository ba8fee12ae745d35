-- Statements that both dialects understand. Each writes one row at most, and none
-- needs a transaction around it, but for those of lockIncarnation. {now} is the server's clock in microseconds, {ident}
-- who the server is, {p} the prefix of the tables, {j} a parameter that is JSON.
--
-- {server} is quicker to get than {ident}, and as good for a process that has once read both in one statement: see
-- pgServer in dialect.go. The statements of every lock and handoff compare it alone.
--
-- A row's version is never given out twice, so it follows the clock. To count on from the version in the row
-- would not do: a crash may lose the last write, of a claim that was queued or an unlock, and a process that has read
-- it would overwrite what was acknowledged after the crash.

-- name: incarnation
-- The incarnation, and whether this server is the one it belongs to: 1, 0, or -1 on a connection that
-- has no identity.
SELECT {now}, m.incarnation, CASE WHEN m.identity = {ident} THEN 1 WHEN {ident} IS NULL THEN -1 ELSE 0 END, m.grace_end, m.floor, m.layout,
  m.grace, m.max_ttl, {server}
FROM {p}incarnation m WHERE m.id = 1

-- name: renewIncarnation
-- Another server has the tables now: a promoted replica, a restored backup. Tokens go
-- on from its clock, which is above every counter that grew by less than one each
-- microsecond. No grace period becomes shorter: it is never longer than max_ttl, which is not lowered meanwhile.
UPDATE {p}incarnation SET
  incarnation = GREATEST(incarnation + 1, {now}), floor = GREATEST(floor + 1, {now}),
  grace_end = {now} + ?, grace = ?, max_ttl = ?, identity = {ident}
WHERE id = 1 AND incarnation = ? AND identity <> {ident}

-- name: strengthen
-- Gives the tables what a process asks for: grace, or a higher max_ttl. If the incarnation, which is the time of its
-- beginning, is so young that earlier leases may be trusted, the rest of its grace period counts from now on: a process that
-- knew less was the first after a data loss. MySQL assigns from left to right.
UPDATE {p}incarnation SET
  grace_end = GREATEST(grace_end, GREATEST(grace, ?) * (LEAST({now}, incarnation) + GREATEST(max_ttl, ?))),
  max_ttl = GREATEST(max_ttl, ?), grace = GREATEST(grace, ?)
WHERE id = 1 AND incarnation = ? AND identity = {ident}

-- name: lockIncarnation
-- This and the next three are one transaction, an operator's, which makes a setting weaker.
SELECT GREATEST(0, m.grace_end - {now}), m.grace, m.max_ttl FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} FOR UPDATE

-- name: endMore
DELETE FROM {p}session WHERE declared NOT BETWEEN ? AND ? AND ends <= {now}

-- name: countMore
SELECT COUNT(*) FROM {p}session s WHERE s.declared NOT BETWEEN ? AND ?

-- name: weaken
UPDATE {p}incarnation SET grace = ?, max_ttl = ? WHERE id = 1

-- name: keepAliveBroken
-- The same for a session with broken claims: the list is replaced if it is still as read.
UPDATE {p}session SET ends = GREATEST(ends + 1, {now} + ttl), broken = ?
WHERE id = ? AND generation = ? AND inc = ? AND ends > {now} AND broken = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = {p}session.inc AND m.identity = {ident})

-- name: endSession
-- Ends for good a session whose time has come. It comes before anybody takes its locks:
-- if the clock were set back it could be kept alive otherwise.
DELETE FROM {p}session WHERE id = ? AND generation = ? AND ends <= {now}

-- name: correctGrace
-- The clock was ahead when the incarnation began, and was set back since.
UPDATE {p}incarnation SET grace_end = {now} + max_ttl WHERE id = 1 AND grace_end > {now} + max_ttl + ?

-- name: correctSession
-- The same for a session. A minute and a TTL more are left alone: MySQL's clock is that of
-- the statement's beginning, and a keep-alive that began later may have come first.
UPDATE {p}session SET ends = {now} + ttl WHERE id = ? AND generation = ? AND ends > {now} + 2 * ttl + 60000000

-- name: reclaimedAll
UPDATE {p}session SET done = inc WHERE id = ? AND generation = ? AND inc = ?

-- name: load
-- All that is needed to decide about a lock with one plain holder, or none.
SELECT {now}, m.incarnation, CASE WHEN m.identity = {ident} THEN 1 WHEN {ident} IS NULL THEN -1 ELSE 0 END, m.grace_end, m.floor, m.layout,
  m.grace, m.max_ttl, {server},
  s.generation, s.ends, s.inc, s.done, s.broken,
  h.generation, h.ends, h.done,
  l.version, l.counter, l.lim, l.reclaimed, l.holder, l.seq, l.generation, l.inc, l.since, l.record, l.grants, l.queue, l.marks
FROM {p}incarnation m
LEFT JOIN {p}session s ON s.id = ?
LEFT JOIN {p}lock l ON l.name = ?
LEFT JOIN {p}session h ON h.id = l.holder
WHERE m.id = 1

-- name: write
-- Writes a lock back if it was not written since it was read.
UPDATE {p}lock SET version = GREATEST(version + 1, {now}), counter = ?, lim = ?, reclaimed = ?,
  holder = ?, seq = ?, generation = ?, inc = ?, since = ?, record = ?, grants = {j}, queue = {j}, marks = {j}, touched = {now}
WHERE name = ? AND version = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident})

-- name: writeFor
-- The same for a claim of a session, which must live.
UPDATE {p}lock SET version = GREATEST(version + 1, {now}), counter = ?, lim = ?, reclaimed = ?,
  holder = ?, seq = ?, generation = ?, inc = ?, since = ?, record = ?, grants = {j}, queue = {j}, marks = {j}, touched = {now}
WHERE name = ? AND version = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident})
  AND EXISTS (SELECT 1 FROM {p}session s WHERE s.id = ? AND s.generation = ? AND s.ends > {now})

-- name: poll
-- What a waiting claim polls: one row by its key. {first} is the session of the first claim
-- in the queue: those before a claim may have given up.
SELECT l.counter, l.holder, l.seq, l.grants, {first} FROM {p}lock l WHERE l.name = ?

-- name: from
-- Locks in the order of their names. Free ones are left out by the reader: their number
-- is bounded by the sweep.
SELECT l.name, {now}, l.touched, l.version, l.counter, l.lim, l.reclaimed, l.holder, l.seq, l.generation, l.inc, l.since, l.record, l.grants, l.queue, l.marks
FROM {p}lock l WHERE l.name >= ? ORDER BY l.name LIMIT ?

-- name: after
SELECT l.name, {now}, l.touched, l.version, l.counter, l.lim, l.reclaimed, l.holder, l.seq, l.generation, l.inc, l.since, l.record, l.grants, l.queue, l.marks
FROM {p}lock l WHERE l.name > ? ORDER BY l.name LIMIT ?

-- name: raiseFloor
-- Comes before the rows go: a row that is made anew begins above it.
UPDATE {p}incarnation SET floor = ? WHERE id = 1 AND floor < ? AND grace_end <= {now}

-- name: ended
-- Sessions that ended long ago, and those whose end is too far ahead.
SELECT s.id, s.generation, CASE WHEN s.ends < {now} THEN 0 ELSE 1 END FROM {p}session s
WHERE s.ends < {now} - ? OR s.ends > {now} + 2 * s.ttl + 60000000 LIMIT ?
