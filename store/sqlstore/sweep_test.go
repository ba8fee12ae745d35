// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestSweep: free locks and dead sessions leave no rows, what is held stays, and a lock
// whose row was removed goes on with higher tokens.
func TestSweep(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		c := client(t, s, 30*time.Second)
		held := lock(t, c, "held")
		tokens := map[string]fencelock.Token{}
		for i := range 20 {
			name := fmt.Sprint("free/", i)
			must.OK(t, c.Do(ctxb, name, func(_ context.Context, l *fencelock.Lease) error {
				tokens[name] = l.Token()
				return nil
			}))
		}
		// A process that died: its session has ended, and its lock is free.
		must.OK(t, exec(db, "INSERT INTO "+opts.Prefix()+"session (id, generation, ttl, ends, declared, inc, done) VALUES ('00000000000000000000000000000001', 7, 1, 1, -1, 1, 1)"))
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"lock SET holder = '00000000000000000000000000000001', seq = 1, generation = 7, inc = 1, since = 1, record = '{}', touched = 1 WHERE name = 'free/3'"))
		for range 2 { // the second finds what the first has freed
			must.OK(t, sqlstore.Sweep(ctxb, s))
		}
		if n := count(t, db, opts.Prefix()+"lock"); n != 1 {
			t.Errorf("%d rows of locks are left, want that of the one that is held", n)
		}
		if n := count(t, db, opts.Prefix()+"session"); n != 1 {
			t.Errorf("%d rows of sessions are left, want ours", n)
		}
		if err := held.Err(); err != nil {
			t.Error(err)
		}
		for name, old := range tokens {
			if l := lock(t, c, name); l.Token() <= old {
				t.Errorf("%s has token %v after %v", name, l.Token(), old)
			}
		}
	})
}

// TestVersionsRiseThroughASweep: a process that read a row which was then removed must not
// write to the row that was created again, as if nothing had changed.
func TestVersionsRiseThroughASweep(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		c := client(t, s, 30*time.Second)
		var last int64
		for _, limit := range []int64{0, 0, 2} { // the last is made the longer way
			if limit > 0 {
				l, err := c.Semaphore("x", limit).Acquire(ctxb, 1)
				must.OK(t, err)
				defer l.Unlock(ctxb)
			} else {
				must.OK(t, c.Do(ctxb, "x", func(context.Context, *fencelock.Lease) error { return nil }))
			}
			var version int64
			must.OK(t, db.QueryRow("SELECT version FROM "+opts.Prefix()+"lock WHERE name = 'x'").Scan(&version))
			if version <= last {
				t.Errorf("version %d after %d", version, last)
			}
			last = version
			must.OK(t, sqlstore.Sweep(ctxb, s))
			if n := count(t, db, opts.Prefix()+"lock"); limit == 0 && n != 0 {
				t.Fatalf("%d rows are left, want none", n)
			}
		}
	})
}

func count(t *testing.T, db *sql.DB, table string) (n int) {
	must.OK(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// TestWriterOfASweptRowDoesNotWaitForItself: a writer that is too late, makes the row that was
// swept, and is too late again is one writer that tries again, not two.
func TestWriterOfASweptRowDoesNotWaitForItself(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		must.OK(t, s.SetLimit(ctxb, "x", 2))
		var seen []int
		must.OK(t, sqlstore.ChangeLimit(ctxb, s, "x", 3, func(retrying int) {
			if seen = append(seen, retrying); len(seen) <= 3 { // swept between the read and the write
				must.OK(t, exec(db, "DELETE FROM "+opts.Prefix()+"lock"))
			}
		}))
		for _, n := range seen {
			if n > 1 {
				t.Fatalf("writers that tried again, by write: %v, want at most 1", seen)
			}
		}
		if len(seen) < 5 {
			t.Errorf("%d writes, want the writer to be too late twice", len(seen))
		}
	})
}

// TestShortLivedProcessesSweep: processes that live for one lock, as those of a command do, and sweep once, remove free rows behind
// many rows that stay. Which part each of them sweeps is left to chance.
func TestShortLivedProcessesSweep(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		must.OK(t, client(t, k.store(t, db, &opts), 30*time.Second).Do(ctxb, "job", func(context.Context, *fencelock.Lease) error { return nil }))
		rows := func(n int, format string) {
			all := make([]string, n)
			for i := range all {
				all[i] = fmt.Sprintf(format, i)
			}
			must.OK(t, exec(db, "INSERT INTO "+opts.Prefix()+"lock (name, version, counter, lim, reclaimed, touched) VALUES "+strings.Join(all, ",")))
		}
		const stay, free = 1200, 300
		rows(stay, "('a/%04d', 1, 1, 5, 0, 1)") // they have a limit
		rows(free, "('a/9%03d', 1, 1, NULL, 0, 1)")
		rows(free, "('z/%04d', 1, 1, NULL, 0, 1)")
		for i := range 500 {
			s, err := sqlstore.New(db, &opts)
			must.OK(t, err)
			must.OK(t, sqlstore.SweepFirst(ctxb, s))
			must.OK(t, s.Close())
			if count(t, db, opts.Prefix()+"lock") <= stay+1 {
				t.Logf("%d processes removed all", i+1)
				return
			}
		}
		t.Errorf("of %d free rows %d are left", 2*free, count(t, db, opts.Prefix()+"lock")-stay-1)
	})
}
