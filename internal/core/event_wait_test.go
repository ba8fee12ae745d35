// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

// logged returns the lines of a log that have the text.
func logged(log interface{ String() string }, text string) (lines []string) {
	synctest.Wait()
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// wantLines fails the test unless the lines are these.
func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestStoreThatDoesNotAnswerIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, log := locktest.Log(slog.LevelInfo)
		c := newClient(t, bent(t, newStore(), `during(0s, 1m, refuse)`), &fencelock.Options{Logger: logger})
		const line = `level=WARN msg="fencelock: session open failed" server=memory shard=0 err="faultstore: open: refused: store unavailable"`
		for range 3 {
			_ = within(5*time.Second, locking(c.Mutex("x")))
		}
		wantLines(t, logged(log, "session"), line) // once, not for each try
		time.Sleep(time.Minute)
		unlock(t, lock(t, c, "x"))
		wantLines(t, logged(log, "session"), line, `level=INFO msg="fencelock: session opened" server=memory shard=0`)
	})
}

func TestFailedRenewalIsLoggedWithTheTimeLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var events locktest.Events
		logger, log := locktest.Log(slog.LevelInfo)
		c := newClient(t, bent(t, newStore(), `on(keepalive, nth(1, refuse))`),
			&fencelock.Options{Logger: logger, Hooks: events.Hooks()})
		l := lock(t, c, "x")
		time.Sleep(ttl)
		lines := logged(log, "renewal failed")
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "level=WARN") || !strings.Contains(lines[0], " left=") || strings.Contains(lines[0], "held=") {
			t.Errorf("got %q", lines)
		}
		for _, e := range events.All() {
			if e.Kind == fencelock.SessionRenewalFailed && (e.Waited != 0 || e.Held != 0 || e.Left < trust/2 || e.Left > trust) {
				t.Errorf("waited %v, held %v, left %v of %v", e.Waited, e.Held, e.Left, trust)
			}
		}
		unlock(t, l)
	})
}

// The first lock of a new namespace with a grace period seems to hang otherwise.
func TestGracePeriodIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		logger, log := locktest.Log(slog.LevelInfo)
		var waits []fencelock.AcquireWait
		hooks := fencelock.Hooks{AcquireWait: func(_ context.Context, w fencelock.AcquireWait) { waits = append(waits, w) }}
		c := newClient(t, store, &fencelock.Options{Logger: logger, Hooks: hooks})
		store.Reset()
		time.Sleep(2 * time.Second)
		l := lock(t, c, "x")
		wantLines(t, logged(log, "waiting"), `level=INFO msg="fencelock: lease waiting: the store is new or was reset; `+
			`no new locks for 58s (grace period)" server=memory shard=0 lock=x`)
		if len(waits) != 1 || waits[0].Grace != memstore.DefaultMaxTTL-2*time.Second {
			t.Errorf("got %+v", waits)
		}
		unlock(t, l)
	})
}

func TestGoroutineThatWaitsForItselfIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		logger, log := locktest.Log(slog.LevelWarn)
		c := newClient(t, store, &fencelock.Options{Logger: logger, Owner: "me"})
		err := c.Mutex("x", fencelock.Reason("outer")).Do(ctxb, func(_ context.Context, _ *fencelock.Lease) error {
			return within(10*ttl, func(ctx context.Context) error { return c.Do(ctx, "x", nil) })
		})
		wantIs(t, "Do", err, context.DeadlineExceeded)
		wantLines(t, logged(log, "x"), `level=WARN msg="fencelock: lease self-blocked: this client holds the lock; a goroutine `+
			`that holds it must lock again with its lease's context" server=memory shard=0 lock=x holder=me reason=outer waited=15s`)
	})
}

// A queue that moves is not a deadlock, nor is a holder in another process.
func TestOrdinaryWaitsAreNotLoggedAsSelfBlocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		logger, log := locktest.Log(slog.LevelWarn)
		c := newClient(t, store, &fencelock.Options{Logger: logger})
		other := lock(t, newClient(t, store, nil), "x")
		var waiters []*acquisition
		for range 5 {
			waiters = append(waiters, start(ctxb, c.Mutex("x")))
		}
		time.Sleep(3 * ttl)
		unlock(t, other)
		for _, w := range waiters {
			l := w.wait(t, time.Minute)
			time.Sleep(ttl / 2)
			unlock(t, l)
		}
		wantLines(t, logged(log, "self-blocked"))
	})
}

func TestUnlockOfNothing(t *testing.T) {
	var l *fencelock.Lease
	var set *fencelock.LeaseSet
	if err := l.Unlock(ctxb); err != nil {
		t.Error(err)
	}
	if err := set.Unlock(ctxb); err != nil {
		t.Error(err)
	}
}
