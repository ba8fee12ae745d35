// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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

var updateErrors = flag.Bool("errors.update", false, "write the table of docs/troubleshooting.md")

// provoked are the errors that a program can meet, each made to happen.
var provoked = []struct {
	what string
	make func(t *testing.T) error
}{
	{"`TryLock` of a lock that another process holds", func(t *testing.T) error {
		store := memstore.New(nil)
		hold(t, locktest.Client(t, store, nil))
		return try(t, locktest.Client(t, store, nil))
	}},
	{"`Lock`, and its context ends behind a holder", func(t *testing.T) error {
		store := memstore.New(nil)
		hold(t, locktest.Client(t, store, nil))
		return wait(t, locktest.Client(t, store, nil))
	}},
	{"`TryLock` in a grace period", func(t *testing.T) error { return try(t, locktest.Client(t, resting(), nil)) }},
	{"`Lock`, and its context ends in a grace period", func(t *testing.T) error { return wait(t, locktest.Client(t, resting(), nil)) }},
	{"`TryLock` of a store that does not answer", func(t *testing.T) error { return try(t, locktest.Client(t, silent(), nil)) }},
	{"`Lock` of a store that does not answer for `StoreTimeout`", func(t *testing.T) error {
		_, err := locktest.Client(t, silent(), &fencelock.Options{StoreTimeout: time.Second}).Mutex("x").Lock(context.Background())
		return err
	}},
	{"any call after `Client.Close`", func(t *testing.T) error {
		c := locktest.Client(t, memstore.New(nil), nil)
		must.OK(t, c.Close(t.Context()))
		return try(t, c)
	}},
	{"an option that the store cannot do", func(t *testing.T) error {
		store := locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Hold = false })
		_, err := locktest.Client(t, store, nil).Mutex("x", fencelock.MinHold(time.Second)).Lock(t.Context())
		return err
	}},
	{"`New` with `Require: Correctness` on a store that is not fit for it", func(*testing.T) error {
		_, err := fencelock.New(memstore.New(nil), &fencelock.Options{Require: fencelock.Correctness})
		return err
	}},
	{"a write lock inside a read lock of the same name", func(t *testing.T) error {
		m := locktest.Client(t, memstore.New(nil), nil).RWMutex("x")
		l, err := m.RLock(t.Context())
		must.OK(t, err)
		_, err = m.Lock(l.Context())
		return err
	}},
	{"the cause of the context after `Unlock`", func(t *testing.T) error {
		l := hold(t, locktest.Client(t, memstore.New(nil), nil))
		must.OK(t, l.Unlock(t.Context()))
		return context.Cause(l.Context())
	}},
	{"`Unlock` that the store does not confirm", func(t *testing.T) error {
		store := locktest.NewTap(memstore.New(nil))
		store.OnWithdraw = func(context.Context, driver.Withdrawal, locktest.WithdrawFunc) (driver.Removed, error) {
			return 0, driver.ErrUnknown
		}
		return hold(t, locktest.Client(t, store, nil)).Unlock(t.Context())
	}},
	{"the session was not renewed in time", func(t *testing.T) error {
		return afterAlive(t, func(context.Context, locktest.AliveFunc) (driver.Renewal, error) {
			return driver.Renewal{}, driver.ErrUnknown
		})
	}},
	{"the store ended the session", func(t *testing.T) error {
		return afterAlive(t, func(context.Context, locktest.AliveFunc) (driver.Renewal, error) {
			return driver.Renewal{}, driver.ErrGone
		})
	}},
	{"the store lost its data, without a grace period", func(t *testing.T) error {
		store := memstore.New(nil)
		l := hold(t, locktest.Client(t, store, nil))
		store.Reset()
		hold(t, locktest.Client(t, store, nil))
		return lostCause(l)
	}},
	{"an operator took the lock away", func(t *testing.T) error {
		c := locktest.Client(t, memstore.New(nil), nil)
		l := hold(t, c)
		_, err := c.ForceUnlock(t.Context(), "x", l.Token())
		must.OK(t, err)
		return l.Unlock(t.Context())
	}},
	{"the lease reached its `MaxHold`", func(t *testing.T) error {
		l, err := locktest.Client(t, memstore.New(nil), nil).Mutex("x", fencelock.MaxHold(time.Second)).Lock(t.Context())
		must.OK(t, err)
		return lostCause(l)
	}},
	{"`Once`, whose function unlocked its lease", func(t *testing.T) error {
		_, err := locktest.Client(t, memstore.New(nil), nil).Once("x", time.Hour).Do(t.Context(), "1",
			func(ctx context.Context, l *fencelock.Lease) error { return l.Unlock(ctx) })
		return err
	}},
	{"`ForceUnlock` with the token of no holder", func(t *testing.T) error {
		_, err := locktest.Client(t, memstore.New(nil), nil).ForceUnlock(t.Context(), "x", 256)
		return err
	}},
	{"the cause of a term's context after `Resign`", func(t *testing.T) error {
		e := locktest.Client(t, memstore.New(nil), nil).Election("x")
		causes := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = e.Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
				<-ctx.Done()
				select {
				case causes <- context.Cause(ctx):
				default: // it campaigned again
				}
				return nil
			})
		}()
		synctest.Wait()
		must.OK(t, e.Resign(ctx))
		return <-causes
	}},
}

func hold(t *testing.T, c *fencelock.Client) *fencelock.Lease {
	t.Helper()
	return locktest.Got(t)(c.Mutex("x").Lock(t.Context()))
}

func try(t *testing.T, c *fencelock.Client) error {
	t.Helper()
	_, err := c.Mutex("x").TryLock(t.Context())
	return err
}

func wait(t *testing.T, c *fencelock.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Mutex("x").Lock(ctx)
	return err
}

// silent is a store that does not answer attempts.
func silent() driver.Store {
	store := locktest.NewTap(memstore.New(nil))
	store.OnAttempt = func(context.Context, *driver.Claim, locktest.AttemptFunc) (driver.Outcome, error) {
		return driver.Outcome{}, driver.ErrUnavailable
	}
	return store
}

// afterAlive returns the loss of a lease whose keep-alives are answered so.
func afterAlive(t *testing.T, answer func(context.Context, locktest.AliveFunc) (driver.Renewal, error)) error {
	t.Helper()
	store := locktest.NewTap(memstore.New(nil))
	store.OnAlive = answer
	return lostCause(hold(t, locktest.Client(t, store, nil)))
}

func lostCause(l *fencelock.Lease) error {
	<-l.Context().Done()
	return context.Cause(l.Context())
}

// sentinels are the errors that errors.Is compares.
var sentinels = []struct {
	name string
	err  error
}{
	{"ErrBusy", fencelock.ErrBusy}, {"ErrGrace", fencelock.ErrGrace}, {"ErrLost", fencelock.ErrLost}, {"LossUnrenewed", fencelock.LossUnrenewed},
	{"LossSessionEnded", fencelock.LossSessionEnded}, {"LossStoreReset", fencelock.LossStoreReset}, {"LossForceUnlock", fencelock.LossForceUnlock},
	{"LossMaxHold", fencelock.LossMaxHold}, {"LossUnmarked", fencelock.LossUnmarked}, {"ErrReleased", fencelock.ErrReleased},
	{"ErrUnavailable", fencelock.ErrUnavailable}, {"ErrClosed", fencelock.ErrClosed}, {"ErrUnsupported", fencelock.ErrUnsupported},
	{"ErrUpgrade", fencelock.ErrUpgrade}, {"ErrNotHeld", fencelock.ErrNotHeld}, {"ErrResigned", fencelock.ErrResigned},
	{"context.DeadlineExceeded", context.DeadlineExceeded},
}

// asTypes are the types that errors.As finds.
var asTypes = []struct {
	name string
	in   func(error) bool
}{
	{"*BusyError", func(err error) bool { return errors.As(err, new(*fencelock.BusyError)) }},
	{"*GraceError", func(err error) bool { return errors.As(err, new(*fencelock.GraceError)) }},
	{"*LostError", func(err error) bool { return errors.As(err, new(*fencelock.LostError)) }},
	{"*Error", func(err error) bool { return errors.As(err, new(*fencelock.Error)) }},
}

// TestErrorTable: docs/troubleshooting.md has what errors.Is and errors.As find in each error, and every error of the package
// can be provoked. After a change that is meant, run go test -run TestErrorTable -errors.update .
func TestErrorTable(t *testing.T) {
	const page, begin, end = "docs/troubleshooting.md", "<!-- table: TestErrorTable writes it -->\n", "<!-- end of table -->\n"
	var b strings.Builder
	b.WriteString("\n| What happened | `errors.Is` | `errors.As` |\n| --- | --- | --- |\n")
	seen := map[string]bool{}
	for _, p := range provoked {
		var is, as []string
		synctest.Test(t, func(t *testing.T) {
			err := p.make(t)
			for _, e := range sentinels {
				if errors.Is(err, e.err) {
					is, seen[e.name] = append(is, "`"+e.name+"`"), true
				}
			}
			for _, e := range asTypes {
				if e.in(err) {
					as, seen[e.name] = append(as, "`"+e.name+"`"), true
				}
			}
		})
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.what, strings.Join(is, ", "), strings.Join(as, ", "))
	}
	b.WriteString("\n")
	for _, e := range sentinels {
		if !seen[e.name] {
			t.Errorf("nothing provokes %s", e.name)
		}
	}
	text, err := os.ReadFile(page)
	must.OK(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table", page)
	}
	if *updateErrors {
		must.OK(t, os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o644))
	} else if table != b.String() {
		t.Errorf("the table of %s is not what was provoked:\n%s", page, b.String())
	}
}
