// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// within runs fn under a context that ends after d.
func within(d time.Duration, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctxb, d)
	defer cancel()
	return fn(ctx)
}

// locking returns the error of Lock.
func locking(m *fencelock.Mutex) func(context.Context) error {
	return func(ctx context.Context) error { _, err := m.Lock(ctx); return err }
}

// wantText fails the test unless the error has that text.
func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestTimeoutNamesTheLockAndItsHolder(t *testing.T) {
	const held = `waited 2s, held by web-3:4711 (nightly import): context deadline exceeded`
	for name, c := range map[string]struct {
		wait func(c *fencelock.Client) func(context.Context) error
		want string
	}{
		"Lock": {func(c *fencelock.Client) func(context.Context) error { return locking(c.Mutex("x")) },
			`fencelock: lock "x" (memory): ` + held},
		"Do": {func(c *fencelock.Client) func(context.Context) error {
			return func(ctx context.Context) error { return c.Do(ctx, "x", nil) }
		}, `fencelock: lock "x" (memory): ` + held},
		"RLock": {func(c *fencelock.Client) func(context.Context) error {
			return func(ctx context.Context) error { _, err := c.RWMutex("x").RLock(ctx); return err }
		}, `fencelock: lock "x" (memory): ` + held},
		"Acquire": {func(c *fencelock.Client) func(context.Context) error {
			return func(ctx context.Context) error { _, err := c.Semaphore("x", 1).Acquire(ctx, 1); return err }
		}, `fencelock: lock "x" (memory): ` + held},
		"LockAll": {func(c *fencelock.Client) func(context.Context) error {
			return func(ctx context.Context) error { _, err := c.LockAll(ctx, []string{"x", "a"}); return err }
		}, `fencelock: lock all: lock "x" (memory): ` + held},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newStore()
				holder := newClient(t, store, &fencelock.Options{Owner: "web-3:4711"})
				lock(t, holder, "x", fencelock.Reason("nightly import"))
				err := within(2*time.Second, c.wait(newClient(t, store, nil)))
				wantText(t, err, c.want)
				wantIs(t, name, err, context.DeadlineExceeded)
				var e *fencelock.Error
				if !errors.As(err, &e) || e.Name != "x" || e.Waited.Round(time.Millisecond) != 2*time.Second || e.Holder.Record.Reason != "nightly import" {
					t.Errorf("the error has %+v", e)
				}
				if errors.Is(err, fencelock.ErrUnavailable) || errors.Is(err, fencelock.ErrBusy) {
					t.Errorf("a wait for a holder is neither unavailable nor busy: %v", err)
				}
			})
		})
	}
}

func TestTimeoutInTheClientsOwnQueueNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), &fencelock.Options{Owner: "me"})
		lock(t, c, "x", fencelock.Reason("import"))
		err := within(time.Second, locking(c.Mutex("x")))
		wantText(t, err, `fencelock: lock "x" (memory): waited 1s, held by me (import): context deadline exceeded`)
		if errors.Is(err, fencelock.ErrUnavailable) {
			t.Error("the store was not asked, so it is not unavailable")
		}
	})
}

func TestTimeoutKeepsTheCauseOfTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), &fencelock.Options{Owner: "me"})
		lock(t, c, "x")
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(ctxb)
		w := start(ctx, c.Mutex("x"))
		time.Sleep(time.Second)
		cancel(why)
		if !w.over() {
			t.Fatal("it waits on")
		}
		wantIs(t, "Lock", w.err, context.Canceled, why)
		wantText(t, w.err, `fencelock: lock "x" (memory): waited 1s, held by me: context canceled: shutting down`)
		_, err := c.Mutex("y").Lock(ctx)
		wantText(t, err, `fencelock: lock "y" (memory): context canceled: shutting down`)
	})
}

func TestTimeoutOfASilentStoreIsUnavailable(t *testing.T) {
	const silent = `during(0s, 1h, lose(request))`
	for name, c := range map[string]struct {
		fault string
		ask   func(c *fencelock.Client) func(context.Context) error
		want  string
	}{
		"the first call": {silent, func(c *fencelock.Client) func(context.Context) error { return locking(c.Mutex("x")) },
			`fencelock: lock "x" (memory): waited 2s: store unavailable: context deadline exceeded`},
		"refused": {`refuse`, func(c *fencelock.Client) func(context.Context) error { return locking(c.Mutex("x")) },
			`fencelock: lock "x" (memory): waited 2s: faultstore: open: refused: store unavailable: context deadline exceeded`},
		"behind another goroutine": {silent, func(c *fencelock.Client) func(context.Context) error {
			go c.Mutex("x").Lock(ctxb)
			synctest.Wait()
			return locking(c.Mutex("x"))
		}, `fencelock: lock "x" (memory): waited 2s: store unavailable: context deadline exceeded`},
		"a try": {silent, func(c *fencelock.Client) func(context.Context) error {
			return func(ctx context.Context) error { _, err := c.Mutex("x").TryLock(ctx); return err }
		}, `fencelock: try lock "x" (memory): store unavailable: context deadline exceeded`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				client := newClient(t, bent(t, newStore(), c.fault), nil)
				err := within(2*time.Second, c.ask(client))
				wantIs(t, "Lock", err, context.DeadlineExceeded, fencelock.ErrUnavailable)
				wantText(t, err, c.want)
			})
		})
	}
}

// A store that named a holder and then fell silent is what the caller waits for.
func TestTimeoutAfterTheStoreFellSilentIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		lock(t, newClient(t, store, nil), "x")
		c := newClient(t, bent(t, store, `during(5s, 1h, lose(request))`), &fencelock.Options{StoreTimeout: time.Hour})
		err := within(2*time.Second, locking(c.Mutex("x")))
		if errors.Is(err, fencelock.ErrUnavailable) {
			t.Errorf("the store answered: %v", err)
		}
		err = within(2*time.Minute, locking(c.Mutex("x")))
		wantIs(t, "Lock", err, context.DeadlineExceeded, fencelock.ErrUnavailable)
	})
}

func TestTimeoutInTheGracePeriodNamesIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true, MaxTTL: time.Minute})
		c := newClient(t, store, nil)
		store.Reset()
		err := within(2*time.Second, locking(c.Mutex("x")))
		if err == nil || !strings.Contains(err.Error(), `: waited 2s: the store is new or was reset; no new locks for `) ||
			!strings.HasSuffix(err.Error(), ` (grace period): context deadline exceeded`) {
			t.Errorf("got %v", err)
		}
		wantIs(t, "Lock", err, fencelock.ErrGrace, context.DeadlineExceeded)
		var e *fencelock.Error
		var grace *fencelock.GraceError
		if !errors.As(err, &e) || !errors.As(err, &grace) || grace.Name != "x" || grace.RetryAfter.Round(time.Second) != 58*time.Second {
			t.Errorf("got %#v", err)
		}
	})
}

func TestLossIsReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		want := map[string]string{
			"Do":   `fencelock: unlock "x" (memory): lease lost: lease reached its end`,
			"Once": `fencelock: unlock "y@1" (memory): lease lost: lease reached its end`,
		}
		for name, run := range map[string]func(fn func(context.Context, *fencelock.Lease) error) error{
			"Do": func(fn func(context.Context, *fencelock.Lease) error) error {
				return c.Mutex("x", fencelock.MaxHold(time.Second)).Do(ctxb, fn)
			},
			"Once": func(fn func(context.Context, *fencelock.Lease) error) error {
				_, err := c.Once("y", time.Hour, fencelock.MaxHold(time.Second)).Do(ctxb, "1", fn)
				return err
			},
		} {
			err := run(func(ctx context.Context, _ *fencelock.Lease) error { <-ctx.Done(); return context.Cause(ctx) })
			wantIs(t, name, err, fencelock.ErrLost, fencelock.LossMaxHold)
			wantText(t, err, want[name])
		}
	})
}
