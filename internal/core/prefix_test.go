// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/shard"
)

// wantPrefix fails the test if an error does not begin with the name of the package.
func wantPrefix(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil && !strings.HasPrefix(err.Error(), "fencelock: ") {
		t.Errorf("%s: want the prefix of the package: %v", what, err)
	}
}

// faulty returns a store of each kind in memory, whose calls fail.
func faulty(t *testing.T, fault string) map[string]driver.Store {
	t.Helper()
	wrapped := func() driver.Store {
		s, err := faultstore.Wrap(memstore.New(nil), faultstore.MustParse(fault), &faultstore.Options{LateLimit: time.Second})
		must.OK(t, err)
		return s
	}
	three, err := quorum.New([]quorum.Node{{Name: "a", Store: wrapped()}, {Name: "b", Store: wrapped()}, {Name: "c", Store: wrapped()}},
		&quorum.Options{Alarm: func(quorum.Alarm) {}})
	must.OK(t, err)
	t.Cleanup(func() { _ = three.Close() })
	two, err := shard.New([]shard.Member{{Name: "a", Store: wrapped()}, {Name: "b", Store: wrapped()}}, nil)
	must.OK(t, err)
	return map[string]driver.Store{"memstore": memstore.New(nil), "faultstore": wrapped(), "quorum": three, "shard": two}
}

// TestErrorsBeginWithThePackage: whatever fails below, an error of the API names the library first.
func TestErrorsBeginWithThePackage(t *testing.T) {
	for _, fault := range []string{
		"refuse", "fail", "lose(request)", "on(attempt, fail)", "on(attempt, lose(reply))", "on(withdraw, refuse)", "on(withdraw, fail)", "on(keepalive, fail)",
		"any(on(break, fail), on(inspect, fail), on(list, fail), on(setlimit, fail))",
	} {
		bubble(t, func(t *testing.T) {
			for name, store := range faulty(t, fault) {
				c, err := fencelock.New(store, &fencelock.Options{StoreTimeout: 2 * time.Second})
				must.OK(t, err)
				errs := failures(c)
				errs["close"] = within(5*time.Second, c.Close)
				for what, err := range errs {
					wantPrefix(t, name+", "+fault+", "+what, err)
				}
				if name != "memstore" && !anyError(errs) {
					t.Errorf("%s, %s: nothing failed, so nothing was tested", name, fault)
				}
			}
		})
	}
}

// anyError reports whether there is an error beside those that need no fault.
func anyError(errs map[string]error) bool {
	for what, err := range errs {
		if err != nil && what != "break" && !strings.HasPrefix(what, "bad") {
			return true
		}
	}
	return false
}

// failures makes every call that uses the store, and returns the errors.
func failures(c *fencelock.Client) map[string]error {
	errs := map[string]error{}
	call := func(what string, fn func(ctx context.Context) error) {
		errs[what] = within(time.Second, fn)
	}
	call("lock", func(ctx context.Context) error {
		l, err := c.Mutex("a").Lock(ctx)
		if err == nil {
			time.Sleep(20 * time.Second) // for keep-alives
			err = l.Unlock(ctxb)
		}
		return err
	})
	call("try", func(ctx context.Context) error { _, err := c.Mutex("b").TryLock(ctx); return err })
	call("do", func(ctx context.Context) error {
		return c.Do(ctx, "c", func(context.Context, *fencelock.Lease) error { return nil })
	})
	call("all", func(ctx context.Context) error { _, err := c.LockAll(ctx, []string{"d", "e"}); return err })
	call("semaphore", func(ctx context.Context) error { return c.Semaphore("s", 2).SetLimit(ctx, 3) })
	call("inspect", func(ctx context.Context) error { _, err := c.Inspect(ctx, "a"); return err })
	call("list", func(ctx context.Context) error {
		for _, err := range c.List(ctx, "") {
			if err != nil {
				return err
			}
		}
		return nil
	})
	call("break", func(ctx context.Context) error { _, err := c.ForceUnlock(ctx, "a", 512); return err })
	call("bad name", func(ctx context.Context) error { _, err := c.Mutex("").TryLock(ctx); return err })
	call("bad limit", func(ctx context.Context) error { return c.Semaphore("s", 2).SetLimit(ctx, -1) })
	return errs
}
