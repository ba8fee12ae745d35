// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlstore_test

import (
	"sync"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestWriterFromBeforeACrash: a crash may lose a queued claim, and with it the last version of a
// row. A process that has read that version, and writes after the crash, must not overwrite what
// was acknowledged in between: here an unlock, which would never be repeated.
//
//	H holds        version v
//	X is queued    version v+1, not durable
//	P reads        version v+1
//	crash          version v
//	H unlocks      not v+1, or P's write would bring H back
func TestWriterFromBeforeACrash(t *testing.T) {
	t.Parallel()
	k := onPostgres
	// The log is written by commits that wait for it, and until it is stopped by one other process.
	server := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres("wal_writer_delay=10000") })
	db := k.connect(t, server.Port)
	opts := k.space(t, db)
	s := k.store(t, db, &opts)
	version := func() (v int64) {
		must.OK(t, db.QueryRow("SELECT version FROM "+opts.Prefix()+"lock WHERE name = 'x'").Scan(&v))
		return v
	}
	holder, waiter := open(t, s), open(t, s)
	attempt(t, holder, plain(1, "x"), driver.Granted)
	durable := version()
	// The process that writes the log from time to time writes no more, however long this test takes.
	var writer int
	must.OK(t, db.QueryRow("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").Scan(&writer))
	must.OK(t, syscall.Kill(writer, syscall.SIGSTOP))
	attempt(t, waiter, queued(1, "x"), driver.Queued)
	lost := version()
	var crash sync.Once
	must.OK(t, sqlstore.ChangeLimit(ctxb, s, "x", 3, func(int) {
		crash.Do(func() {
			must.OK(t, server.Restart())
			_, err := inspectSoon(s, "y")
			must.OK(t, err)
			if got := version(); got != durable || lost == durable {
				t.Fatalf("version %d after the crash, %d before it, %d on disk: nothing was lost", got, lost, durable)
			}
			withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
			if got := version(); got == lost {
				t.Errorf("version %d is given out a second time", got)
			}
		})
	}))
	if st, err := s.Inspect(ctxb, "x"); err != nil || len(st.Holders) != 0 || st.Limit != 3 {
		t.Errorf("got %d holders and the limit %d, %v, want none and 3", len(st.Holders), st.Limit, err)
	}
}
