// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

// graceCall is a public call that asks for a new lock.
type graceCall struct {
	method string // as Type.Method
	waits  bool
	call   func(ctx context.Context, c *fencelock.Client, name string) error
}

func errOf[T any](_ T, err error) error { return err }

var graceCalls = []graceCall{
	{"Client.Do", true, func(ctx context.Context, c *fencelock.Client, n string) error { return c.Do(ctx, n, locktest.Nothing) }},
	{"Client.Ready", false, func(ctx context.Context, c *fencelock.Client, n string) error { return c.Ready(ctx, n) }},
	{"Client.LockAll", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.LockAll(ctx, []string{n, n + "/2"}))
	}},
	{"Client.TryLockAll", false, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.TryLockAll(ctx, []string{n, n + "/2"}))
	}},
	{"Mutex.Lock", true, func(ctx context.Context, c *fencelock.Client, n string) error { return errOf(c.Mutex(n).Lock(ctx)) }},
	{"Mutex.Lock", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.Mutex(n, fencelock.ReentrantAs("me")).Lock(ctx))
	}},
	{"Mutex.TryLock", false, func(ctx context.Context, c *fencelock.Client, n string) error { return errOf(c.Mutex(n).TryLock(ctx)) }},
	{"Mutex.TryLock", false, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.Mutex(n, fencelock.Linger(time.Second)).TryLock(ctx))
	}},
	{"Mutex.Do", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return c.Mutex(n, fencelock.MaxHold(time.Minute)).Do(ctx, locktest.Nothing)
	}},
	{"RWMutex.Lock", true, func(ctx context.Context, c *fencelock.Client, n string) error { return errOf(c.RWMutex(n).Lock(ctx)) }},
	{"RWMutex.TryLock", false, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.RWMutex(n).TryLock(ctx))
	}},
	{"RWMutex.RLock", true, func(ctx context.Context, c *fencelock.Client, n string) error { return errOf(c.RWMutex(n).RLock(ctx)) }},
	{"RWMutex.TryRLock", false, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.RWMutex(n).TryRLock(ctx))
	}},
	{"RWMutex.Do", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return c.RWMutex(n).Do(ctx, locktest.Nothing)
	}},
	{"RWMutex.DoRead", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return c.RWMutex(n).DoRead(ctx, locktest.Nothing)
	}},
	{"Semaphore.Acquire", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.Semaphore(n, 3).Acquire(ctx, 1))
	}},
	{"Semaphore.TryAcquire", false, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.Semaphore(n, 3).TryAcquire(ctx, 1))
	}},
	{"Semaphore.Do", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return c.Semaphore(n, 3).Do(ctx, 1, locktest.Nothing)
	}},
	{"Once.Do", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return errOf(c.Once(n, time.Hour).Do(ctx, "1", locktest.Nothing))
	}},
	{"Election.Run", true, func(ctx context.Context, c *fencelock.Client, n string) error {
		return c.Election(n).Run(ctx, locktest.Nothing)
	}},
}

// graceNot are the calls that ask for no new lock.
var graceNot = []string{"Client.ForceUnlock", "Client.Close", "Client.Inspect", "Election.Leader", "Election.Resign", "RWMutex.Downgrade", "Semaphore.SetLimit"}

// unrecognized says why a caller could not tell the error from others, or is empty.
func (g graceCall) unrecognized(err error) string {
	var grace *fencelock.GraceError
	var e *fencelock.Error
	switch {
	case err == nil:
		return "it was granted"
	case !errors.Is(err, fencelock.ErrGrace), errors.Is(err, fencelock.ErrBusy), errors.Is(err, fencelock.ErrUnavailable):
		return "it is not ErrGrace alone"
	case !errors.As(err, &grace) || grace.RetryAfter <= 0 || grace.RetryAfter > time.Minute || grace.Name == "":
		return fmt.Sprintf("GraceError %+v", grace)
	case g.waits && (!errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Waited <= 0):
		return "it does not say that the context ended the wait"
	case !g.waits && errors.Is(err, context.DeadlineExceeded):
		return "it waited"
	}
	return ""
}

// TestGraceIsRecognizedFromEveryCall: a handler must tell "no new locks for now" from a holder and from a store that is
// down, whatever it called.
func TestGraceIsRecognizedFromEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true, MaxTTL: time.Minute})
		c := locktest.Client(t, store, nil)
		before := locktest.Got(t)(c.Mutex("before").Lock(t.Context()))
		bad := 0
		for i, g := range graceCalls {
			for _, behind := range []bool{false, true} {
				store.Reset() // each is the first call after a data loss
				name := fmt.Sprint(i, behind)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if behind { // another goroutine of the same client waits for the lock already
					go c.Mutex(name).Lock(ctx)
					synctest.Wait()
				}
				short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
				err := g.call(short, c, name)
				stop()
				cancel()
				if why := g.unrecognized(err); why != "" {
					bad++
					t.Errorf("%s, behind a waiter %t: %s: %v", g.method, behind, why, err)
				}
			}
		}
		if err := before.Err(); err != nil {
			t.Errorf("a lease from before: %v", err)
		}
		locktest.Unlock(t, before)
		figure.Print("grace-errors-unrecognized", bad, figure.Exactly(0))
	})
}

// TestGraceCallsAreAll: a new method that takes a context is tried in a grace period, too, or asks for no lock.
func TestGraceCallsAreAll(t *testing.T) {
	known := slices.Clone(graceNot)
	for _, g := range graceCalls {
		known = append(known, g.method)
	}
	takesContext, fails := reflect.TypeFor[context.Context](), reflect.TypeFor[error]()
	for _, typ := range []reflect.Type{
		reflect.TypeFor[*fencelock.Client](), reflect.TypeFor[*fencelock.Mutex](), reflect.TypeFor[*fencelock.RWMutex](),
		reflect.TypeFor[*fencelock.Semaphore](), reflect.TypeFor[*fencelock.Once](), reflect.TypeFor[*fencelock.Election](),
	} {
		for m := range typ.NumMethod() {
			method := typ.Method(m)
			in, out := method.Type.NumIn(), method.Type.NumOut()
			if in < 2 || method.Type.In(1) != takesContext || out == 0 || method.Type.Out(out-1) != fails {
				continue
			}
			if name := typ.Elem().Name() + "." + method.Name; !slices.Contains(known, name) {
				t.Errorf("%s is not tried in a grace period", name)
			}
		}
	}
}
