-- Statements that both dialects understand. Each writes one row at most, and none
-- needs a transaction around it. {now} is the server's clock in microseconds, {ident}
-- who the server is, {p} the prefix of the tables, {j} a parameter that is JSON.

-- name: memory
-- The incarnation, and whether this server is the one it belongs to.
SELECT {now}, m.incarnation, CASE WHEN m.identity = {ident} THEN 1 ELSE 0 END, m.grace_end, m.floor, m.settings
FROM {p}incarnation m WHERE m.id = 1

-- name: renewMemory
-- Another server has the tables now: a promoted replica, a restored backup. Tokens go
-- on from its clock, which is above every counter that grew by less than one each
-- microsecond.
UPDATE {p}incarnation SET
  incarnation = GREATEST(incarnation + 1, {now}), floor = GREATEST(floor + 1, {now}),
  grace_end = {now} + ?, identity = {ident}
WHERE id = 1 AND incarnation = ? AND identity <> {ident}

-- name: keepAlive
-- One row of one table, whatever the number of locks. An operator's break sets broken.
UPDATE {p}session SET ends = {now} + ttl
WHERE id = ? AND epoch = ? AND inc = ? AND ends > {now} AND broken IS NULL
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = {p}session.inc AND m.identity = {ident})

-- name: keepAliveBroken
-- The same for a session with broken claims: the list is replaced if it is still as read.
UPDATE {p}session SET ends = {now} + ttl, broken = ?
WHERE id = ? AND epoch = ? AND inc = ? AND ends > {now} AND broken = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = {p}session.inc AND m.identity = {ident})

-- name: endSession
-- Ends for good a session whose time has come. It comes before anybody takes its locks:
-- if the clock were set back it could be kept alive otherwise.
DELETE FROM {p}session WHERE id = ? AND epoch = ? AND ends <= {now}

-- name: closeSession
DELETE FROM {p}session WHERE id = ? AND epoch = ? AND inc = ?

-- name: reclaimedAll
UPDATE {p}session SET done = inc WHERE id = ? AND epoch = ? AND inc = ?

-- name: load
-- All that is needed to decide about a lock with one plain holder, or none.
SELECT {now}, m.incarnation, CASE WHEN m.identity = {ident} THEN 1 ELSE 0 END, m.grace_end, m.floor, m.settings,
  s.epoch, s.ends, s.inc, s.done, s.broken,
  h.epoch, h.ends, h.done,
  l.version, l.counter, l.lim, l.reclaimed, l.holder, l.seq, l.epoch, l.inc, l.since, l.record, l.grants, l.line, l.marks
FROM {p}incarnation m
LEFT JOIN {p}session s ON s.id = ?
LEFT JOIN {p}lock l ON l.name = ?
LEFT JOIN {p}session h ON h.id = l.holder
WHERE m.id = 1

-- name: write
-- Writes a lock back if nobody has written it meanwhile.
UPDATE {p}lock SET version = version + 1, counter = ?, lim = ?, reclaimed = ?,
  holder = ?, seq = ?, epoch = ?, inc = ?, since = ?, record = ?, grants = {j}, line = {j}, marks = {j}, touched = {now}
WHERE name = ? AND version = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident})

-- name: writeFor
-- The same for a claim of a session, which must live.
UPDATE {p}lock SET version = version + 1, counter = ?, lim = ?, reclaimed = ?,
  holder = ?, seq = ?, epoch = ?, inc = ?, since = ?, record = ?, grants = {j}, line = {j}, marks = {j}, touched = {now}
WHERE name = ? AND version = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident})
  AND EXISTS (SELECT 1 FROM {p}session s WHERE s.id = ? AND s.epoch = ? AND s.ends > {now})

-- name: look
-- What a waiting claim polls: one row by its key.
SELECT l.counter, l.holder, l.seq, l.grants FROM {p}lock l WHERE l.name = ?

-- name: from
-- Locks in the order of their names. Free ones are left out by the reader: their number
-- is bounded by the sweep.
SELECT l.name, {now}, l.touched, l.version, l.counter, l.lim, l.reclaimed, l.holder, l.seq, l.epoch, l.inc, l.since, l.record, l.grants, l.line, l.marks
FROM {p}lock l WHERE l.name >= ? ORDER BY l.name LIMIT ?

-- name: after
SELECT l.name, {now}, l.touched, l.version, l.counter, l.lim, l.reclaimed, l.holder, l.seq, l.epoch, l.inc, l.since, l.record, l.grants, l.line, l.marks
FROM {p}lock l WHERE l.name > ? ORDER BY l.name LIMIT ?

-- name: raiseFloor
-- Comes before the rows go: a row that is made anew begins above it.
UPDATE {p}incarnation SET floor = ? WHERE id = 1 AND floor < ? AND grace_end <= {now}

-- name: ended
SELECT s.id, s.epoch FROM {p}session s WHERE s.ends < {now} - ? LIMIT ?
