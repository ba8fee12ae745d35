// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// code returns what the server said: an SQLSTATE, or a number of MySQL. It is empty
// if the error is not an answer of the server.
func code(err error) string {
	var state interface{ SQLState() string } // pgx, lib/pq
	if errors.As(err, &state) {
		return state.SQLState()
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return fmt.Sprint(my.Number)
	}
	return ""
}

// queueFull is the code of a statement that PostgreSQL did not commit because its queue of notifications
// is full: a client of the cluster listens, and stays in a transaction. A notification is a hint, a
// waiter finds its grant without it within a TTL, so the statement is repeated and does not notify.
// To notify after the commit, by a statement of its own, was rejected: it is one more round trip.
const queueFull = "54000"

// again are the codes after which the same statement may succeed at once: it was
// chosen to break a deadlock, or met another at a strict isolation level.
var again = []string{"40001", "40P01", "55P03", "1213", "1205", "1020"}

// strangers are the codes of a prepared statement that another connection has, or
// has not: a pooler gave us that one.
var strangers = []string{"26000", "42P05"}

// absent are the codes of a missing table.
var absent = []string{"42P01", "3F000", "1146", "1051"}

// reshaped are the codes of a missing column.
var reshaped = []string{"42703", "1054"}

// nowhere are the codes of a missing database.
var nowhere = []string{"3D000", "1049"}

// forbidden are the codes of a missing permission.
var forbidden = []string{"42501", "1142", "1143", "1044", "1370"}

// down are the codes of a server that answers and works later: too many connections,
// starting, in recovery, read-only. Canceled by a time limit (57014, 57P05, 1969, 3024)
// is among them: a slow minute of the server must not end a session with all its leases.
// PostgreSQL does not answer so once the commit is under way: a wait for a synchronous
// replica that is canceled ends with a warning, and the commit stands.
var down = []string{"53", "57P03", "57014", "57P05", "55000", "25006", "1040", "1203", "1226", "1290", "1836", "1792", "1053", "1047", "1969", "3024"}

// unsure are the codes after which a commit may have happened: an operator ended the
// connection, perhaps while it waited for a synchronous replica, or the commit itself
// failed (1180, 3100: an error during commit, a hook of replication). transaction_timeout (25P04)
// ends the connection, too.
var unsure = []string{"57P01", "57P02", "25P04", "08", "1317", "1927", "1180", "3100"}

func among(codes []string, c string) bool {
	return slices.ContainsFunc(codes, func(p string) bool { return c == p || len(p) == 2 && strings.HasPrefix(c, p) })
}

// classify returns what an error of a statement means. Every statement commits by itself,
// so an answer of the server that is an error means that nothing was done; a missing
// answer means that it may have been, the commit included.
func (s *Store) classify(ctx context.Context, op string, err error) error {
	c := code(err)
	wrap := func(meaning error) error { return fmt.Errorf("sqlstore: %s: %w: %w", op, meaning, err) }
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("sqlstore: %s: %w: %w", op, driver.ErrUnknown, ctx.Err())
	case among(unsure, c):
		return wrap(driver.ErrUnknown)
	case among(down, c), among(again, c):
		return wrap(driver.ErrUnavailable)
	case among(nowhere, c):
		return fmt.Errorf("sqlstore: %s: %w; create the database, or name another in the URL", op, err)
	case among(absent, c):
		return fmt.Errorf("sqlstore: %w (%w); add migrate=true to the URL, or apply what fencelock schema prints (in Go: sqlstore.Migrate, or apply what sqlstore.Schema returns)", ErrNoTables, err)
	case among(reshaped, c):
		return fmt.Errorf("sqlstore: the tables %s* were created by another version of this library (%w); use the same version in all processes, or stop them all, drop the tables and create them again; %s: %w",
			s.opts.prefix(), err, notElsewhere, driver.ErrRefused)
	case missingFunction(err) != "":
		return fmt.Errorf("sqlstore: %s: %s: %w: %w", op, noIdentity(missingFunction(err)), driver.ErrRefused, err)
	case among(forbidden, c) && op == "migrate":
		return fmt.Errorf("sqlstore: %s: %w; use a role that may create tables, once, and then: %s", op, err, s.grantsText())
	case among(forbidden, c) && strings.Contains(err.Error(), "set_config"):
		return fmt.Errorf("sqlstore: %s: %w; the role needs: %s", op, err, grantSetConfig)
	case among(forbidden, c):
		return fmt.Errorf("sqlstore: %s: %w; the role needs: %s", op, err, s.grantsText())
	case c != "":
		return fmt.Errorf("sqlstore: %s: %w", op, err)
	case s.neverSent(err):
		return wrap(driver.ErrUnavailable)
	}
	return wrap(driver.ErrUnknown)
}

// grantSetConfig lets a role say of a statement that it need not wait for the disk. Every role may, unless that was revoked.
const grantSetConfig = "GRANT EXECUTE ON FUNCTION set_config TO ROLE"

// identifying are the functions by which a PostgreSQL server says who it is.
var identifying = []string{"pg_current_wal_lsn", "pg_walfile_name", "pg_control_system"}

// missingFunction returns the function of these that a server does not have, or does not let
// the role use; "" if the error is another one.
func missingFunction(err error) string {
	if err == nil || !slices.Contains([]string{"0A000", "42883", "42501"}, code(err)) {
		return ""
	}
	i := slices.IndexFunc(identifying, func(name string) bool { return strings.Contains(err.Error(), name) })
	if i < 0 {
		return ""
	}
	return identifying[i]
}

// noIdentity is why a server without a function is refused, and what to do.
func noIdentity(function string) string {
	return "the database does not let the store use " + function + ", so it could not notice that another server without the last grants took over; " +
		"GRANT EXECUTE on the function, or use a database that has it (some services, such as Amazon Aurora, may not), or another store"
}

// neverSent reports whether a statement certainly did not reach the server. pgx reports that
// for its errors. ErrBadConn and a failed dial are trusted only from pgx and go-sql-driver:
// lib/pq returns ErrBadConn even when a connection breaks after the statement was sent, and
// it is unknown what a driver that wraps another one does.
func (s *Store) neverSent(err error) bool {
	var connect *pgconn.ConnectError
	var op *net.OpError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err) ||
		s.known && (errors.Is(err, sqldriver.ErrBadConn) || errors.As(err, &op) && op.Op == "dial")
}

// grantsText is Grants as one line, for an error.
func (s *Store) grantsText() string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.TrimSpace(s.Grants("ROLE")), "\n", " "), ";")
}
