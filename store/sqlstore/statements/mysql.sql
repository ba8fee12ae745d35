-- Statements for MySQL and MariaDB. There is no RETURNING; LAST_INSERT_ID(x) brings one
-- number back with the answer. Assignments are made from left to right, and each sees
-- those before it: what others read comes last. No statement has an empty string, as text or
-- parameter: under the SQL mode EMPTY_STRING_IS_NULL it would be null.

-- name: createIncarnation
INSERT IGNORE INTO {p}incarnation (id, identity, incarnation, grace_end, floor, layout, grace, max_ttl)
VALUES (1, {ident}, {now}, {now} + ?, {now}, ?, ?, ?)

-- name: beginNew
-- The same for tables that were never used.
INSERT IGNORE INTO {p}incarnation (id, identity, incarnation, grace_end, floor, layout, grace, max_ttl)
SELECT 1, {ident}, {now}, 0, {now}, ?, ?, ? FROM (SELECT 1 AS one) o
WHERE NOT EXISTS (SELECT 1 FROM {p}session) AND NOT EXISTS (SELECT 1 FROM {p}lock)

-- name: open
-- A session that has ended gets a new generation; one that lives goes on. The settings are read
-- under a lock, so that none is opened that asks for more while they become weaker.
INSERT INTO {p}session (id, generation, ttl, ends, declared, inc, done)
SELECT ?, LAST_INSERT_ID(?), ?, {now} + ?, ?, m.incarnation, m.incarnation FROM {p}incarnation m
WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND m.max_ttl >= ? AND m.grace >= ?
LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
  generation = LAST_INSERT_ID(IF({p}session.ends > {now}, {p}session.generation, VALUES(generation))),
  done = IF({p}session.ends > {now}, {p}session.done, VALUES(done)),
  broken = IF({p}session.ends > {now}, {p}session.broken, NULL),
  ttl = VALUES(ttl), declared = VALUES(declared), inc = VALUES(inc), ends = GREATEST({p}session.ends, VALUES(ends))

-- name: keepAlive
-- One row of one table, whatever the number of locks. An operator's break sets broken.
-- MySQL's clock is that of the statement's beginning: one that began earlier and waited
-- longer must not take time back. The + 1 is because MySQL counts rows that changed.
-- The number that comes back is what the process must know of the settings.
UPDATE {p}session SET ends = GREATEST(ends + 1, {now} + ttl) + 0 * LAST_INSERT_ID((SELECT 2 * m.max_ttl + m.grace FROM {p}incarnation m WHERE m.id = 1))
WHERE id = ? AND generation = ? AND inc = ? AND ends > {now} AND broken IS NULL
  AND EXISTS (SELECT 1 FROM {p}incarnation m WHERE m.id = 1 AND m.incarnation = {p}session.inc AND m.identity = {ident})

-- name: take
-- A plain claim for a lock that is free and has its row: one flat statement, by which most locks are
-- taken. It compares all that takeOrTell does, which follows if nothing matched; so does a counter below the
-- floor, because to read the floor by a second subquery costs more than a statement now and then. The lock's row
-- is locked before anything else: a statement that waits for it holds nothing that other statements need. Under READ
-- COMMITTED the subquery locks no rows, and as it depends on the row it is evaluated after that wait.
-- Tried: an UPDATE of joined tables, which is as quick, but locks what it reads in some versions.
UPDATE {p}lock SET counter = LAST_INSERT_ID(counter + 1), version = GREATEST(version + 1, {now}),
  seq = ?, generation = ?, inc = ?, since = {now}, record = ?, touched = {now}, holder = ?
WHERE name = ? AND {free} AND {server} = ? AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.generation = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.grace_end <= {now} AND m.floor <= {p}lock.counter)

-- name: unlock
-- A plain grant goes that no claim waits for. Nothing is granted, and the row says whose grant it is, of which session, generation
-- and incarnation: so neither the session nor the incarnation has to be read. No other process can hold
-- the lock while the row names this grant, even if its session has ended or a new incarnation has begun.
UPDATE {p}lock SET version = GREATEST(version + 1, {now}), touched = {now},
  holder = NULL, seq = NULL, generation = NULL, inc = NULL, since = NULL, record = NULL
WHERE name = ? AND holder = ? AND seq = ? AND generation = ? AND inc = ? AND queue IS NULL AND {server} = ?

-- name: takeOrTell
-- A plain claim for a lock of which this process does not know whether it has a row. The number that comes back is the counter; 1 if
-- the lock is not free; 0 if it has no row or the session has ended.
UPDATE {p}lock SET
  counter = IF({free}, LAST_INSERT_ID(GREATEST(counter, (SELECT m.floor FROM {p}incarnation m WHERE m.id = 1)) + 1), counter + 0 * LAST_INSERT_ID(1)),
  version = IF({free}, GREATEST(version + 1, {now}), version), seq = IF({free}, ?, seq), generation = IF({free}, ?, generation), inc = IF({free}, ?, inc),
  since = IF({free}, {now}, since), record = IF({free}, ?, record), touched = IF({free}, {now}, touched), holder = IF({free}, ?, holder)
WHERE name = ? AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.generation = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND m.grace_end <= {now} AND {p}lock.version >= 0)

-- name: attempt
-- A plain claim for a lock that has no row: the row is made, or updated if another process
-- made it since. The floor is read under a lock, so that a sweep which raises it and then
-- removes the row of this very name cannot come in between. The session is not: its
-- keep-alive must not wait for a statement that waits. The number that comes back is the
-- counter, or 0.
INSERT INTO {p}lock (name, version, counter, holder, seq, generation, inc, since, record, touched)
SELECT ?, {now}, LAST_INSERT_ID(m.floor + 1), ?, ?, ?, m.incarnation, {now}, ?, {now} FROM {p}incarnation m
WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND m.grace_end <= {now}
  AND EXISTS (SELECT 1 FROM {p}session s WHERE s.id = ? AND s.generation = ? AND s.inc = m.incarnation AND s.ends > {now})
LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
  counter = IF({free}, LAST_INSERT_ID(GREATEST({p}lock.counter, VALUES(counter) - 1) + 1), {p}lock.counter + 0 * LAST_INSERT_ID(0)),
  version = IF({free}, GREATEST({p}lock.version + 1, {now}), {p}lock.version),
  seq = IF({free}, VALUES(seq), {p}lock.seq),
  generation = IF({free}, VALUES(generation), {p}lock.generation),
  inc = IF({free}, VALUES(inc), {p}lock.inc),
  since = IF({free}, VALUES(since), {p}lock.since),
  record = IF({free}, VALUES(record), {p}lock.record),
  touched = IF({free}, VALUES(touched), {p}lock.touched),
  holder = IF({free}, VALUES(holder), {p}lock.holder)

-- name: release
-- A plain grant goes, and if the first in the queue is a plain claim of a session that
-- lives, it has the lock in the same step. All other cases take the
-- slow path.
UPDATE {p}lock SET version = GREATEST(version + 1, {now}), touched = {now},
  counter = IF(queue IS NULL, counter, GREATEST(counter, (SELECT m.floor FROM {p}incarnation m WHERE m.id = 1)) + 1),
  holder = JSON_UNQUOTE(JSON_EXTRACT(queue, '$[0].s')),
  seq = CAST(JSON_EXTRACT(queue, '$[0].n') AS SIGNED), generation = CAST(JSON_EXTRACT(queue, '$[0].g') AS SIGNED),
  inc = CAST(JSON_EXTRACT(queue, '$[0].i') AS SIGNED), since = IF(queue IS NULL, NULL, {now}),
  record = JSON_UNQUOTE(JSON_EXTRACT(queue, '$[0].r')),
  queue = IF(JSON_LENGTH(queue) > 1, JSON_REMOVE(queue, '$[0]'), NULL)
WHERE name = ? AND holder = ? AND seq = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.generation = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND (queue IS NULL OR m.grace_end <= {now}))
  AND (queue IS NULL OR CAST(JSON_EXTRACT(queue, '$[0].x') AS SIGNED) = 1 AND CAST(JSON_EXTRACT(queue, '$[0].i') AS SIGNED) = ? AND EXISTS (
    SELECT 1 FROM {p}session n WHERE n.id = CONVERT(JSON_UNQUOTE(JSON_EXTRACT(queue, '$[0].s')) USING ascii) COLLATE ascii_bin
      AND n.generation = CAST(JSON_EXTRACT(queue, '$[0].g') AS SIGNED) AND n.ends > {now}))

-- name: releaseLong
-- The same for a long queue. The queue is text, and the server reads all of it for each function: so the
-- first claim is taken out once, by JSON_TABLE, which costs more than it saves if few claims wait.
UPDATE {p}lock l LEFT JOIN JSON_TABLE(l.queue, '$' COLUMNS (e JSON PATH '$[0]', more INT EXISTS PATH '$[1]')) f ON TRUE
SET l.version = GREATEST(l.version + 1, {now}), l.touched = {now},
  l.counter = IF(l.queue IS NULL, l.counter, GREATEST(l.counter, (SELECT m.floor FROM {p}incarnation m WHERE m.id = 1)) + 1),
  l.holder = JSON_UNQUOTE(JSON_EXTRACT(f.e, '$.s')),
  l.seq = CAST(JSON_EXTRACT(f.e, '$.n') AS SIGNED), l.generation = CAST(JSON_EXTRACT(f.e, '$.g') AS SIGNED),
  l.inc = CAST(JSON_EXTRACT(f.e, '$.i') AS SIGNED), l.since = IF(l.queue IS NULL, NULL, {now}),
  l.record = JSON_UNQUOTE(JSON_EXTRACT(f.e, '$.r')),
  l.queue = IF(f.more, JSON_REMOVE(l.queue, '$[0]'), NULL)
WHERE l.name = ? AND l.holder = ? AND l.seq = ?
  AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.generation = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND (l.queue IS NULL OR m.grace_end <= {now}))
  AND (l.queue IS NULL OR CAST(JSON_EXTRACT(f.e, '$.x') AS SIGNED) = 1 AND CAST(JSON_EXTRACT(f.e, '$.i') AS SIGNED) = ? AND EXISTS (
    SELECT 1 FROM {p}session n WHERE n.id = CONVERT(JSON_UNQUOTE(JSON_EXTRACT(f.e, '$.s')) USING ascii) COLLATE ascii_bin
      AND n.generation = CAST(JSON_EXTRACT(f.e, '$.g') AS SIGNED) AND n.ends > {now}))

-- name: leave
-- Takes a queued claim out of the queue, and leaves its tombstone unless that is null. It may
-- not be the first in the queue of a lock without a plain holder: those behind it might be
-- granted then. So nothing has to be decided, and many claims that leave at once do not
-- hinder each other. The claim is found if it is the first of its session in the queue.
UPDATE {p}lock SET version = GREATEST(version + 1, {now}), touched = {now},
  marks = IF(? IS NULL, marks, JSON_MERGE_PRESERVE(COALESCE(marks, '[]'), ?)),
  queue = IF(JSON_LENGTH(queue) > 1, JSON_REMOVE(queue, SUBSTRING_INDEX(JSON_UNQUOTE(JSON_SEARCH(queue, 'one', ?, NULL, '$[*].s')), '.', 1)), NULL)
WHERE name = ? AND queue IS NOT NULL AND JSON_EXTRACT(queue, COALESCE(REPLACE(JSON_UNQUOTE(JSON_SEARCH(queue, 'one', ?, NULL, '$[*].s')), '.s', '.n'), '$.none')) = ?
  AND (holder IS NOT NULL AND grants IS NULL OR JSON_UNQUOTE(JSON_SEARCH(queue, 'one', ?, NULL, '$[*].s')) <> '$[0].s')
  AND (marks IS NULL OR NOT JSON_CONTAINS(marks, ?))
  AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.generation = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident} AND {p}lock.version >= 0)

-- name: make
-- Versions begin at the clock: a process that read a row which was swept since must not
-- find its version in the row that was made again.
INSERT IGNORE INTO {p}lock (name, version, counter, touched)
SELECT ?, {now}, m.floor, {now} FROM {p}incarnation m WHERE m.id = 1 LOCK IN SHARE MODE

-- name: hint
-- The space is one of JSON.
UPDATE {p}session SET broken = CONCAT(COALESCE(broken, ' '), ?) WHERE id = ? AND generation = ?

-- name: sweep
-- Removes a free lock. The floor was raised before; a row with a higher counter stays.
DELETE FROM {p}lock WHERE name = ? AND holder IS NULL AND grants IS NULL AND queue IS NULL AND marks IS NULL AND lim IS NULL
  AND counter <= (SELECT m.floor FROM {p}incarnation m WHERE m.id = 1 AND m.grace_end <= {now})

-- name: enqueue
-- Queues a plain claim behind a plain holder that lives. No claim can be granted then, so
-- nothing has to be decided; and many claims that come at once do not hinder each other.
-- A claim that is known already, queued or marked, takes the slow path. The queue is text: a claim is
-- appended to it, and sought in it only if its session is, without reading all of it as JSON. To
-- compare bytes is several times quicker than characters.
-- The number that comes back is 1024 times the handoff lock of the nearest claim before, 0 if the text has none, and how many claims are
-- before. What is found there is a hint, so it does no harm that a record may have the same word.
UPDATE {p}lock SET version = GREATEST(version + 1, {now}) + 0 * LAST_INSERT_ID(
    1024 * IF({before} REGEXP '^[0-9]{1,16}$', CAST({before} AS UNSIGNED), 0)
    + IF(queue IS NULL, 0, LEAST(1023, (LENGTH(queue) - LENGTH(REPLACE(queue, '"s":', 's'))) DIV 3))), touched = {now},
  queue = CONCAT(IF(queue IS NULL, '[', CONCAT(LEFT(queue, CHAR_LENGTH(queue) - 1), ', ')), JSON_SET(?, '$.t', {now}), ']')
WHERE name = ? AND holder IS NOT NULL AND grants IS NULL AND (holder <> ? OR seq <> ?)
  AND (queue IS NULL OR RIGHT(queue, 2) = '}]' AND (LOCATE(CAST(? AS BINARY), CAST(queue AS BINARY)) = 0 OR NOT JSON_CONTAINS(queue, ?)))
  AND (marks IS NULL OR NOT JSON_CONTAINS(marks, ?))
  AND EXISTS (SELECT 1 FROM {p}incarnation m JOIN {p}session s ON s.id = ? AND s.generation = ? AND s.inc = m.incarnation AND s.ends > {now}
    WHERE m.id = 1 AND m.incarnation = ? AND m.identity = {ident})
  AND EXISTS (SELECT 1 FROM {p}session h WHERE h.id = {p}lock.holder AND h.generation = {p}lock.generation AND h.ends > {now}
    AND ({p}lock.inc = ? OR h.done <> ?))

-- name: closeSession
DELETE FROM {p}session WHERE id = ? AND generation = ? AND inc = ?

-- name: renewHandoffLock
-- Frees a handoff lock and takes another.
SELECT RELEASE_LOCK(?), GET_LOCK(?, 0)

-- name: waitHandoffLock
-- Waits for a handoff lock, and gives it back.
SELECT g.got, RELEASE_LOCK(?) FROM (SELECT GET_LOCK(?, ?) AS got) g

-- name: waitHandoffLockRead
-- The same, and polls. The derived table comes first, and the row is read by what it returns,
-- so it is read after the wait.
SELECT g.got, RELEASE_LOCK(?), l.counter, l.holder, l.seq, l.grants, {first}
FROM (SELECT GET_LOCK(?, ?) AS got) g LEFT JOIN {p}lock l ON l.name = IF(g.got < 2, ?, NULL)
