// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// wantOp fails the test unless err is an Error of that operation on that lock.
func wantOp(t *testing.T, err error, op, name string) {
	t.Helper()
	var e *fencelock.Error
	if !errors.As(err, &e) || e.Op != op || e.Name != name {
		t.Errorf("got %v; want an error of the operation %q on %q", err, op, name)
	}
}

// TestErrorsNameTheOperation: what was called, on which lock, even if no call to the store was
// made.
func TestErrorsNameTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		ended, cancel := context.WithCancel(locktest.Context(t))
		cancel()
		_, err := c.Mutex("x").TryLock(ended)
		wantOp(t, err, "try lock", "x")
		_, err = c.Mutex("x").Lock(ended)
		wantOp(t, err, "lock", "x")

		rw := c.RWMutex("x")
		l := locktest.Got(t)(rw.RLock(locktest.Context(t)))
		_, err = rw.TryLock(l.Context())
		wantOp(t, err, "try lock", "x")
		_, err = rw.Lock(l.Context())
		wantOp(t, err, "lock", "x")
		locktest.Unlock(t, l)

		err = rw.Downgrade(locktest.Context(t), l)
		wantOp(t, err, "downgrade", "x")
		locktest.Is(t, err, fencelock.ErrReleased)
		wantOp(t, rw.Downgrade(locktest.Context(t), nil), "downgrade", "x")

		poor := locktest.Client(t, locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Shared = false }), nil)
		_, err = poor.RWMutex("x").TryRLock(locktest.Context(t))
		wantOp(t, err, "try lock", "x")
		_, err = poor.RWMutex("x").RLock(locktest.Context(t))
		wantOp(t, err, "lock", "x")
	})
}

// questions are the calls that need no session.
var questions = map[string]func(context.Context, *fencelock.Client) error{
	"inspect": func(ctx context.Context, c *fencelock.Client) error { _, err := c.Inspect(ctx, "x"); return err },
	"list": func(ctx context.Context, c *fencelock.Client) error {
		for _, err := range c.List(ctx, "") {
			return err
		}
		return nil
	},
	"force unlock": func(ctx context.Context, c *fencelock.Client) error {
		_, err := c.ForceUnlock(ctx, "x", 256)
		return err
	},
	"set limit": func(ctx context.Context, c *fencelock.Client) error { return c.Semaphore("x", 1).SetLimit(ctx, 1) },
}

// TestQuestionUnderAnEndedContextDoesNotBlameTheStore: it was not asked.
func TestQuestionUnderAnEndedContextDoesNotBlameTheStore(t *testing.T) {
	c := locktest.Client(t, memstore.New(nil), nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for op, ask := range questions {
		err := ask(ended, c)
		if !errors.Is(err, context.Canceled) || errors.Is(err, fencelock.ErrUnavailable) || !strings.HasPrefix(err.Error(), "fencelock: "+op) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// TestQuestionAfterCloseIsRefused: the store may be closed by then.
func TestQuestionAfterCloseIsRefused(t *testing.T) {
	c := locktest.Open(t, memstore.New(nil))
	must.OK(t, c.Close(t.Context()))
	for op, ask := range questions {
		if err := ask(t.Context(), c); !errors.Is(err, fencelock.ErrClosed) || !strings.HasPrefix(err.Error(), "fencelock: "+op) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// TestOnceNeedsANameAndAnOccurrence: without one, all occurrences would be the same.
func TestOnceNeedsANameAndAnOccurrence(t *testing.T) {
	c := locktest.Client(t, memstore.New(nil), nil)
	for _, o := range [][2]string{{"", "1"}, {"job", ""}, {"", ""}} {
		res, err := c.Once(o[0], time.Hour).Do(t.Context(), o[1], func(context.Context, *fencelock.Lease) error {
			t.Errorf("%q ran", o)
			return nil
		})
		if err == nil || res.String() != "not run" || !strings.Contains(err.Error(), "1 to 512 bytes, not 0") {
			t.Errorf("%q: %q, %v", o, res, err)
		}
	}
}

// TestInnermostIsTheLeaseThatWasAddedLast: the order of the context counts, not that of
// the acquisitions.
func TestInnermostIsTheLeaseThatWasAddedLast(t *testing.T) {
	c := locktest.Client(t, memstore.New(nil), nil)
	a := locktest.Got(t)(c.Mutex("a").Lock(t.Context()))
	b := locktest.Got(t)(c.Mutex("b").Lock(a.Context()))
	ctx, stop := a.WithContext(b.Context())
	defer stop()
	if got := fencelock.Innermost(ctx); got != a {
		t.Errorf("got %v", got.Name())
	}
	if got := fencelock.Innermost(b.Context()); got != b {
		t.Errorf("got %v", got.Name())
	}
	locktest.Unlock(t, b, a)
}

// TestTraceThatIsNoneIsNotKept: what is longer than a traceparent is not one, and would make
// the record longer than every store can keep.
func TestTraceThatIsNoneIsNotKept(t *testing.T) {
	for length, want := range map[int]int{55: 55, 64: 64, 65: 0, 4096: 0} {
		store := memstore.New(nil)
		c := locktest.Client(t, store, &fencelock.Options{Hooks: fencelock.Hooks{
			TraceParent: func(context.Context) string { return strings.Repeat("0", length) },
		}})
		l := locktest.Got(t)(c.Mutex("x").Lock(t.Context()))
		if got := locktest.Status(t, store, "x").Holders[0].Record.Trace; len(got) != want {
			t.Errorf("of %d bytes %d are kept, want %d", length, len(got), want)
		}
		locktest.Unlock(t, l)
	}
}
