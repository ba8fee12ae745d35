// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// process returns a client with its own connections, and what counts its keep-alives.
func (k kind) process(t *testing.T, server *servers.Server, opts sqlstore.Options, ttl time.Duration) (*fencelock.Client, *measure.Counter) {
	t.Helper()
	counter := measure.NewCounter(k.store(t, k.connect(t, server.Port), &opts))
	return client(t, counter, ttl), counter
}

// lockRow locks a row of the table of locks in a transaction that stays open, as an
// operator's SELECT FOR UPDATE does. If the row does not exist, MariaDB and MySQL lock the
// gap where it would be.
func lockRow(t *testing.T, db *sql.DB, prefix, name string) {
	t.Helper()
	tx, err := db.Begin()
	must.OK(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.Exec("SELECT name FROM " + prefix + "lock WHERE name = '" + name + "' FOR UPDATE")
	must.OK(t, err)
}

// keepsThrough fails the test if the lease is lost before some keep-alives succeeded.
func keepsThrough(t *testing.T, l *fencelock.Lease, counter *measure.Counter, times int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	if err := counter.Await(ctx, times); err != nil {
		t.Fatalf("%v (%v)", err, context.Cause(ctx))
	}
}

// TestRowLockedByOthers: a process that waits for a row which a foreign transaction has
// locked keeps its other leases: the statement that waits holds nothing that its keep-alive
// needs. The same for a name that has no row yet.
func TestRowLockedByOthers(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const ttl = 15 * time.Second
		admin := k.connect(t, server.Port)
		opts := k.space(t, admin)
		c, counter := k.process(t, server, opts, ttl)
		must.OK(t, lock(t, c, "x").Unlock(ctxb)) // the row exists
		y := lock(t, c, "y")
		lockRow(t, admin, opts.Prefix(), "x")
		lockRow(t, admin, opts.Prefix(), "absent")
		ctx, cancel := context.WithCancel(ctxb)
		defer cancel()
		for _, name := range []string{"x", "absent"} {
			go func() { _, _ = c.Mutex(name).Lock(ctx) }()
		}
		keepsThrough(t, y, counter, 4) // longer than the TTL
	})
}

// TestRowLockedByOthersAndSweep: a process that waits for a locked row, beside one that
// sweeps, stops no other process: that one keeps its leases and gets other locks.
func TestRowLockedByOthersAndSweep(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const ttl = 15 * time.Second
		admin := k.connect(t, server.Port)
		opts := k.space(t, admin)
		first, _ := k.process(t, server, opts, ttl)
		second, counter := k.process(t, server, opts, ttl)
		must.OK(t, lock(t, first, "x").Unlock(ctxb))
		must.OK(t, lock(t, first, "z").Unlock(ctxb))
		y := lock(t, second, "y")
		lockRow(t, admin, opts.Prefix(), "x")
		ctx, cancel := context.WithCancel(ctxb)
		defer cancel()
		waiting := make(chan struct{})
		go func() {
			close(waiting)
			_, _ = first.Mutex("x").Lock(ctx)
		}()
		<-waiting
		go func() { // what a sweep of any process does, once a minute
			for ctx.Err() == nil {
				_, _ = admin.ExecContext(ctx, "UPDATE "+opts.Prefix()+"incarnation SET floor = floor + 1 WHERE id = 1")
				<-time.After(time.Millisecond) // it would keep a core busy, beside other tests
			}
		}()
		keepsThrough(t, y, counter, 2)
		must.OK(t, lock(t, second, "z").Unlock(ctxb))
		must.OK(t, lock(t, second, "new").Unlock(ctxb))
		keepsThrough(t, y, counter, 2)
	})
}
