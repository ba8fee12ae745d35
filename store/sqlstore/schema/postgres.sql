-- The tables of sqlstore, layout version 2, for PostgreSQL 13 or later.
-- Applying it twice does no harm. {p} stands for the prefix, fencelock_ by default.
-- All times are microseconds since 1970 by the server's clock.

-- One row: which server and which of its incarnations the rest belongs to, and the settings that
-- all processes obey.
CREATE TABLE IF NOT EXISTS {p}incarnation (
  id          integer PRIMARY KEY CHECK (id = 1),
  identity    text    NOT NULL,          -- system identifier and timeline of the server
  incarnation bigint  NOT NULL,          -- changes when the identity does
  grace_end   bigint  NOT NULL,          -- nothing new is granted before
  floor       bigint  NOT NULL,          -- no token counter at or below it is given out
  layout      text    NOT NULL,          -- version of the layout
  grace       integer NOT NULL,          -- 1: a data loss begins a grace period
  max_ttl     bigint  NOT NULL           -- the highest that a process declares; a grace period is as long
);

-- One row for each process that has or wants locks.
CREATE TABLE IF NOT EXISTS {p}session (
  id      text   COLLATE "C" PRIMARY KEY,
  generation bigint NOT NULL,            -- differs between two sessions with one id
  ttl     bigint NOT NULL,
  ends    bigint NOT NULL,               -- it has ended then, with all its locks
  declared bigint NOT NULL,              -- the max_ttl that its process declares, negative if that asks for no grace
  inc     bigint NOT NULL,               -- incarnation in which it was opened last
  done    bigint NOT NULL,               -- incarnation in which it has reclaimed everything
  broken  text                           -- JSON: locks whose grants an operator may have broken, and their versions
) WITH (fillfactor = 50);

-- One row for each lock that is held, waited for, or was so a while ago.
CREATE TABLE IF NOT EXISTS {p}lock (
  name      text   COLLATE "C" PRIMARY KEY,
  version   bigint NOT NULL,             -- grows with every change
  counter   bigint NOT NULL,             -- the token given out last, divided by 256
  holder    text   COLLATE "C",          -- session of the only, plain exclusive holder
  seq       bigint,                      -- number of the holder's claim
  generation bigint,
  inc       bigint,
  since     bigint,
  record    text,                        -- JSON: who and why
  grants    jsonb,                       -- all holders, if they are not one plain one
  queue     jsonb{lz4},                       -- who waits, the first first; COMPRESSION lz4 here saves time (PostgreSQL 14)
  marks     jsonb,                       -- claims that must not be granted
  lim       bigint,                      -- limit stored by SetLimit
  reclaimed bigint NOT NULL DEFAULT 0,
  touched   bigint NOT NULL              -- when it was changed last
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
