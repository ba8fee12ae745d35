-- Statements for MySQL and MariaDB. There is no RETURNING; LAST_INSERT_ID(x) brings one
-- number back with the answer. Assignments are made from left to right, and each sees
-- those before it: what others read comes last.

-- name: createMemory
INSERT IGNORE INTO {p}incarnation (id, identity, incarnation, grace_end, floor, settings)
VALUES (1, {ident}, {now}, {now} + ?, {now}, ?)

-- name: open
-- A session that has ended begins a new life with a new epoch; one that lives goes on.
INSERT INTO {p}session (id, epoch, ttl, ends, inc, done)
SELECT ?, LAST_INSERT_ID(?), ?, {now} + ?, m.incarnation, m.incarnation FROM {p}incarnation m
WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident}
ON DUPLICATE KEY UPDATE
  epoch = LAST_INSERT_ID(IF({p}session.ends > {now}, {p}session.epoch, VALUES(epoch))),
  done = IF({p}session.ends > {now}, {p}session.done, VALUES(done)),
  broken = IF({p}session.ends > {now}, {p}session.broken, NULL),
  ttl = VALUES(ttl), inc = VALUES(inc), ends = VALUES(ends)

-- name: attempt
-- A plain claim for a lock that is free: the row is made, or updated. The floor is read
-- under a lock, so that a sweep which raises it and then removes the row of this very
-- name cannot come in between. The number that comes back is the counter, or 0.
INSERT INTO {p}lock (name, version, counter, holder, seq, epoch, inc, since, record, touched)
SELECT ?, 1, LAST_INSERT_ID(m.floor + 1), s.id, ?, s.epoch, s.inc, {now}, ?, {now}
FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.epoch = ? AND s.inc = m.incarnation AND s.ends > {now}
WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND m.grace_end <= {now}
LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
  counter = IF({free}, LAST_INSERT_ID(GREATEST({p}lock.counter, VALUES(counter) - 1) + 1), {p}lock.counter + 0 * LAST_INSERT_ID(0)),
  version = IF({free}, {p}lock.version + 1, {p}lock.version),
  seq = IF({free}, VALUES(seq), {p}lock.seq),
  epoch = IF({free}, VALUES(epoch), {p}lock.epoch),
  inc = IF({free}, VALUES(inc), {p}lock.inc),
  since = IF({free}, VALUES(since), {p}lock.since),
  record = IF({free}, VALUES(record), {p}lock.record),
  touched = IF({free}, VALUES(touched), {p}lock.touched),
  holder = IF({free}, VALUES(holder), {p}lock.holder)

-- name: release
-- A plain grant goes, and if the first in line is a plain claim of a session that
-- lives, it has the lock in the same step. Whatever is different is left to the longer
-- way.
UPDATE {p}lock SET version = version + 1, touched = {now},
  counter = IF(line IS NULL, counter, GREATEST(counter, (SELECT m.floor FROM {p}incarnation m WHERE m.id = 1)) + 1),
  holder = JSON_UNQUOTE(JSON_EXTRACT(line, '$[0].s')),
  seq = CAST(JSON_EXTRACT(line, '$[0].n') AS SIGNED), epoch = CAST(JSON_EXTRACT(line, '$[0].e') AS SIGNED),
  inc = CAST(JSON_EXTRACT(line, '$[0].i') AS SIGNED), since = IF(line IS NULL, NULL, {now}),
  record = JSON_UNQUOTE(JSON_EXTRACT(line, '$[0].r')),
  line = IF(JSON_LENGTH(line) > 1, JSON_REMOVE(line, '$[0]'), NULL)
WHERE name = ? AND holder = ? AND seq = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.epoch = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND (line IS NULL OR m.grace_end <= {now}))
  AND (line IS NULL OR CAST(JSON_EXTRACT(line, '$[0].x') AS SIGNED) = 1 AND CAST(JSON_EXTRACT(line, '$[0].i') AS SIGNED) = ? AND EXISTS (
    SELECT 1 FROM {p}session n WHERE n.id = CONVERT(JSON_UNQUOTE(JSON_EXTRACT(line, '$[0].s')) USING ascii) COLLATE ascii_bin
      AND n.epoch = CAST(JSON_EXTRACT(line, '$[0].e') AS SIGNED) AND n.ends > {now}))

-- name: make
INSERT IGNORE INTO {p}lock (name, version, counter, touched)
SELECT ?, 0, m.floor, {now} FROM {p}incarnation m WHERE m.id = 1 LOCK IN SHARE MODE

-- name: hint
UPDATE {p}session SET broken = CONCAT(COALESCE(broken, ''), ?) WHERE id = ? AND epoch = ?

-- name: sweep
-- Removes a free lock. The floor was raised before; a row with a higher counter stays.
DELETE FROM {p}lock WHERE name = ? AND holder IS NULL AND grants IS NULL AND line IS NULL AND marks IS NULL AND lim IS NULL
  AND counter <= (SELECT m.floor FROM {p}incarnation m WHERE m.id = 1 AND m.grace_end <= {now})

-- name: enqueue
-- A plain claim comes into line behind a plain holder that lives. Nobody can be granted
-- then, so nothing has to be decided; and many who come at a time do not hinder each
-- other. A claim that is known already, in line or marked, is left to the longer way.
UPDATE {p}lock SET version = version + 1, touched = {now},
  line = JSON_MERGE_PRESERVE(COALESCE(line, '[]'), JSON_SET(?, '$.t', {now}))
WHERE name = ? AND holder IS NOT NULL AND grants IS NULL AND (holder <> ? OR seq <> ?)
  AND (line IS NULL OR NOT JSON_CONTAINS(line, ?)) AND (marks IS NULL OR NOT JSON_CONTAINS(marks, ?))
  AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.epoch = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident})
  AND EXISTS (SELECT 1 FROM {p}session h WHERE h.id = {p}lock.holder AND h.epoch = {p}lock.epoch AND h.ends > {now}
    AND ({p}lock.inc = ? OR h.done <> ?))
