-- The tables of sqlstore, layout version 2, for MariaDB 10.6, MySQL 8.0.21 or later.
-- Applying it twice does no harm. {p} stands for the prefix, fencelock_ by default.
-- All times are microseconds since 1970 by the server's clock.

-- One row: which server and which of its incarnations the rest belongs to, and the settings that
-- all processes obey.
CREATE TABLE IF NOT EXISTS {p}incarnation (
  id          INT          NOT NULL PRIMARY KEY,
  identity    VARCHAR(255) NOT NULL,      -- ids of the server
  incarnation BIGINT       NOT NULL,      -- changes when the identity does
  grace_end   BIGINT       NOT NULL,      -- nothing new is granted before
  floor       BIGINT       NOT NULL,      -- no token counter at or below it is given out
  layout      VARCHAR(255) NOT NULL,      -- version of the layout
  grace       INT          NOT NULL,      -- 1: a data loss begins a grace period
  max_ttl     BIGINT       NOT NULL       -- the highest that a process declares; a grace period is as long
) ENGINE=InnoDB DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row for each process that has or wants locks.
CREATE TABLE IF NOT EXISTS {p}session (
  id      CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  generation BIGINT   NOT NULL,           -- differs between two sessions with one id
  ttl     BIGINT   NOT NULL,
  ends    BIGINT   NOT NULL,              -- it has ended then, with all its locks
  declared BIGINT  NOT NULL,              -- the max_ttl that its process declares, negative if that asks for no grace
  inc     BIGINT   NOT NULL,              -- incarnation in which it was opened last
  done    BIGINT   NOT NULL,              -- incarnation in which it has reclaimed everything
  broken  LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin -- JSON: locks whose grants an operator may have broken, and their versions
) ENGINE=InnoDB;

-- One row for each lock that is held, waited for, or was so a while ago.
CREATE TABLE IF NOT EXISTS {p}lock (
  name      VARBINARY(512) NOT NULL PRIMARY KEY,
  version   BIGINT NOT NULL,              -- grows with every change
  counter   BIGINT NOT NULL,              -- the token given out last, divided by 256
  holder    CHAR(32) CHARACTER SET ascii COLLATE ascii_bin, -- session of the only, plain exclusive holder
  seq       BIGINT,                       -- number of the holder's claim
  generation BIGINT,
  inc       BIGINT,
  since     BIGINT,
  record    TEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- JSON: who and why
  grants    LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- JSON: all holders, if they are not one plain one
  queue     LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- JSON: who waits, the first first
  marks     LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- JSON: claims that must not be granted
  lim       BIGINT,                       -- limit stored by SetLimit
  reclaimed BIGINT NOT NULL DEFAULT 0,
  touched   BIGINT NOT NULL               -- when it was changed last
) ENGINE=InnoDB;
