// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// forgetful is a PostgreSQL server that writes its log only for commits that wait for it, and so loses every other one in a crash.
type forgetful struct {
	*through
	server *servers.Server
	admin  *sql.DB
	writer int // process that writes the log from time to time; it is stopped
}

// forgetfulServer is for one test at a time.
var (
	forgetfulServer = shared(func() (*servers.Server, error) {
		return servers.Postgres("wal_writer_delay=10000", "autovacuum=off", "bgwriter_lru_maxpages=0")
	})
	forgetfulTest sync.Mutex
)

func newForgetful(t *testing.T) *forgetful {
	t.Helper()
	forgetfulTest.Lock()
	t.Cleanup(forgetfulTest.Unlock)
	f := &forgetful{server: need(t, forgetfulServer)}
	t.Cleanup(func() { _ = syscall.Kill(f.writer, syscall.SIGCONT) }) // if it was not killed
	f.admin = onPostgres.connect(t, f.server.Port)
	f.through = onPostgres.behind(t, f.server)
	must.OK(t, visit(f))
	sqlstore.AwaitSweep(f.Store)
	f.writer = f.walWriter()
	must.OK(t, syscall.Kill(f.writer, syscall.SIGSTOP))
	return f
}

// walWriter returns 0 if the server does not answer.
func (f *forgetful) walWriter() (pid int) {
	_ = f.admin.QueryRow("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").Scan(&pid)
	return pid
}

// crash crashes the server, or one of its processes only.
func (f *forgetful) crash(t *testing.T, whole bool) {
	t.Helper()
	if whole {
		must.OK(t, f.server.Restart())
	} else {
		must.OK(t, syscall.Kill(f.writer, syscall.SIGKILL))
	}
	eventually(t, "another process that writes the log", func() bool { pid := f.walWriter(); return pid != 0 && pid != f.writer })
	_, err := inspectSoon(f, "y")
	must.OK(t, err)
}

// holder returns the session in the row of x.
func (f *forgetful) holder(t *testing.T) string {
	t.Helper()
	var id sql.NullString
	must.OK(t, f.admin.QueryRow("SELECT holder FROM "+f.opts.Prefix()+"lock WHERE name = 'x'").Scan(&id))
	return id.String
}

// undone checks that the crash has undone the last release of x.
func (f *forgetful) undone(t *testing.T) {
	t.Helper()
	if f.holder(t) == "" {
		t.Fatal("the crash has undone nothing")
	}
}

// unlocked opens a session, and locks and unlocks x. Every commit before the unlock is durable.
func (f *forgetful) unlocked(t *testing.T, ttl time.Duration) (driver.Session, driver.OpenRequest) {
	t.Helper()
	req := driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: ttl}
	ss, _, err := f.Open(ctxb, req)
	must.OK(t, err)
	attempt(t, ss, plain(1, "x"), driver.Granted)
	withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
	req.Before = ss
	return ss, req
}

// TestUnlockThatACrashUndoes: the holder that a crash brings back has unlocked and lives. It repeats the unlock after its next keep-alive,
// and a claim that waits is granted. If only a process of the server crashes, the postmaster stays, with the time of its start.
func TestUnlockThatACrashUndoes(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprintf("server=%t", whole), func(t *testing.T) {
			t.Parallel()
			f := newForgetful(t)
			ss, _ := f.unlocked(t, 50*time.Second)
			f.crash(t, whole)
			f.undone(t)
			other := open(t, f)
			attempt(t, other, queued(1, "x"), driver.Queued)
			_, err := ss.KeepAlive(ctxb)
			must.OK(t, err)
			granted(t, other, queued(1, "x"))
			// The one after the keep-alive may not be over yet.
			eventually(t, "that nothing is remembered", func() bool { sqlstore.Settle(ss); return sqlstore.Released(ss) == 0 })
		})
	}
}

// TestProcessLocksAgainWhatACrashBroughtBack: it need not wait for its keep-alive.
func TestProcessLocksAgainWhatACrashBroughtBack(t *testing.T) {
	t.Parallel()
	f := newForgetful(t)
	ss, _ := f.unlocked(t, 50*time.Second)
	f.crash(t, true)
	f.undone(t)
	granted(t, ss, queued(2, "x"))
}

// TestReleaseIsForgottenWhenItIsDurable, and not before.
func TestReleaseIsForgottenWhenItIsDurable(t *testing.T) {
	t.Parallel()
	f := newForgetful(t)
	ss, _ := f.unlocked(t, 50*time.Second)
	if n := sqlstore.Released(ss); n != 1 {
		t.Errorf("%d releases are remembered, want 1", n)
	}
	sqlstore.Settle(ss)
	if n := sqlstore.Released(ss); n != 0 {
		t.Errorf("%d releases are remembered, want none", n)
	}
	f.crash(t, true)
	if id := f.holder(t); id != "" {
		t.Errorf("the holder is %s again", id)
	}
}

// TestRepeatedUnlockIsRemembered: the answer to the first is lost, and the second finds nothing to do.
func TestRepeatedUnlockIsRemembered(t *testing.T) {
	t.Parallel()
	f := newForgetful(t)
	ss, _ := f.unlocked(t, 50*time.Second) // the statement is prepared now
	attempt(t, ss, plain(2, "x"), driver.Granted)
	f.loseReply(f.holder(t))
	if _, err := ss.Withdraw(ctxb, driver.Withdrawal{Seq: 2, Name: "x"}); err == nil {
		t.Fatal("the answer was not lost")
	}
	eventually(t, "the unlock", func() bool { return f.holder(t) == "" })
	withdraw(t, ss, driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasAbsent)
	f.crash(t, true)
	f.undone(t)
	_, err := ss.KeepAlive(ctxb)
	must.OK(t, err)
	eventually(t, "the repeated unlock", func() bool { return f.holder(t) == "" })
}

// TestSessionOpenedAgainRemembersReleases of the value before, but not of a session that has ended.
func TestSessionOpenedAgainRemembersReleases(t *testing.T) {
	t.Parallel()
	f := newForgetful(t)
	ss, req := f.unlocked(t, 50*time.Second)
	f.crash(t, true)
	f.undone(t)
	again, _, err := f.Open(ctxb, req)
	must.OK(t, err)
	_, err = again.KeepAlive(ctxb)
	must.OK(t, err)
	eventually(t, "the repeated unlock", func() bool { return f.holder(t) == "" })

	attempt(t, ss, plain(2, "x"), driver.Granted)
	withdraw(t, ss, driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasGranted)
	must.OK(t, ss.Close(ctxb))
	next, _, err := f.Open(ctxb, req)
	must.OK(t, err)
	if n := sqlstore.Released(next); n != 0 {
		t.Errorf("a new session remembers %d releases of the one before", n)
	}
}

// TestUnlockAndCloseAndACrash: a session that is closed holds nothing, whichever came first.
func TestUnlockAndCloseAndACrash(t *testing.T) {
	t.Parallel()
	t.Run("closed before", func(t *testing.T) {
		t.Parallel()
		f := newForgetful(t)
		ss, _ := f.unlocked(t, 50*time.Second)
		must.OK(t, ss.Close(ctxb))
		f.crash(t, true)
		if id := f.holder(t); id != "" {
			t.Errorf("the holder is %s again", id)
		}
		attempt(t, open(t, f), plain(1, "x"), driver.Granted)
	})
	t.Run("closed after", func(t *testing.T) {
		t.Parallel()
		f := newForgetful(t)
		ss, _ := f.unlocked(t, 50*time.Second)
		f.crash(t, true)
		f.undone(t)
		must.OK(t, ss.Close(ctxb))
		attempt(t, open(t, f), plain(1, "x"), driver.Granted)
	})
	t.Run("never closed", func(t *testing.T) { // the process has died: its session ends
		t.Parallel()
		f := newForgetful(t)
		f.unlocked(t, 8*time.Second)
		f.crash(t, true)
		f.undone(t)
		granted(t, open(t, f), queued(1, "x"))
	})
}

// TestWaiterBehindAnUndoneUnlockAndClose: the session whose unlock was undone is closed before it has repeated the unlock. A claim that waits
// behind it is granted at once, and not when it next looks after the holder.
func TestWaiterBehindAnUndoneUnlockAndClose(t *testing.T) {
	t.Parallel()
	f := newForgetful(t)
	ss, _ := f.unlocked(t, time.Minute)
	f.crash(t, true)
	f.undone(t)
	other := open(t, f)
	out := attempt(t, other, queued(1, "x"), driver.Queued)
	must.OK(t, ss.Close(ctxb))
	ctx, cancel := context.WithTimeout(ctxb, out.PollAfter/2)
	defer cancel()
	if out, err := other.Await(ctx, queued(1, "x")); err != nil || out.State != driver.Granted {
		t.Errorf("the claim that waits is %v, %v", out.State, err)
	}
}

// TestUndoneUnlockIsBroken: an operator breaks what a crash brought back. The process has released it, so its core does not withdraw it:
// the session does, or it would be told of the break at each keep-alive, and both rows would stay out of the short statements.
func TestUndoneUnlockIsBroken(t *testing.T) {
	t.Parallel()
	f := newForgetful(t)
	ss, _ := f.unlocked(t, time.Minute)
	f.crash(t, true)
	f.undone(t)
	st, err := f.Inspect(ctxb, "x")
	must.OK(t, err)
	_, err = f.Break(ctxb, "x", st.Holders[0].Token)
	must.OK(t, err)
	eventually(t, "that the break is not reported any more", func() bool {
		renewal, err := ss.KeepAlive(ctxb)
		sqlstore.AwaitSweep(f.Store)
		return err == nil && len(renewal.Broken) == 0 && sqlstore.Released(ss) == 0
	})
	withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasBroken)
}

// TestReleaseOfANameThatIsNotText: a database whose encoding is not UTF-8 takes any bytes as a name, but not in JSON.
// Such a release waits for the disk, or the others could not be settled beside it.
func TestReleaseOfANameThatIsNotText(t *testing.T) {
	t.Parallel()
	port := need(t, onPostgres.start).Port
	must.OK(t, exec(onPostgres.connect(t, port), "CREATE DATABASE bytes TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING 'SQL_ASCII'"))
	db, err := sql.Open(onPostgres.driver, strings.Replace(pgSource(port), "/postgres?", "/bytes?", 1))
	must.OK(t, err)
	t.Cleanup(func() { db.Close() })
	opts := onPostgres.space(t, db)
	ss := open(t, onPostgres.store(t, db, &opts))
	for i, name := range []string{"text é", "bytes \xff", "line \u2028", "paragraph \u2029"} {
		attempt(t, ss, plain(uint64(i), name), driver.Granted)
		withdraw(t, ss, driver.Withdrawal{Seq: uint64(i), Name: name}, driver.WasGranted)
	}
	if n := sqlstore.Released(ss); n != 1 {
		t.Errorf("%d releases are remembered, want that of text only", n)
	}
	sqlstore.Settle(ss)
	if n := sqlstore.Released(ss); n != 0 {
		t.Errorf("%d releases are not settled", n)
	}
}

// TestReleasesAreBounded: beyond the bound they wait for the disk. None is forgotten by a failure. Many are settled before a keep-alive comes.
func TestReleasesAreBounded(t *testing.T) {
	t.Parallel()
	db := onPostgres.connect(t, need(t, onPostgres.start).Port)
	opts := onPostgres.space(t, db)
	ss := open(t, onPostgres.store(t, db, &opts))
	letGo := sqlstore.HoldSettling(ss)
	seq := uint64(0)
	lockAndUnlock := func(times int) {
		for range times {
			seq++
			attempt(t, ss, plain(seq, "x"), driver.Granted)
			withdraw(t, ss, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
		}
	}
	lockAndUnlock(sqlstore.MaxReleased + 10)
	if n := sqlstore.Released(ss); n != sqlstore.MaxReleased {
		t.Errorf("%d releases are remembered, want %d", n, sqlstore.MaxReleased)
	}
	letGo()
	table := opts.Prefix() + "lock"
	must.OK(t, exec(db, "ALTER TABLE "+table+" RENAME TO "+table+"_away"))
	sqlstore.Settle(ss)
	must.OK(t, exec(db, "ALTER TABLE "+table+"_away RENAME TO "+table))
	if n := sqlstore.Released(ss); n != sqlstore.MaxReleased {
		t.Errorf("%d releases are remembered although the server could not tell", n)
	}
	sqlstore.Settle(ss)
	lockAndUnlock(sqlstore.MaxReleased / 2)
	eventually(t, "fewer releases to remember", func() bool { return sqlstore.Released(ss) == 0 })
}
