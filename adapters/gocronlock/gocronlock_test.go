// SPDX-License-Identifier: Apache-2.0

package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/gocronlock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// Lock is gocron.Lock.
type Lock interface {
	Unlock(ctx context.Context) error
}

// TestLockerKeepsTheOccurrence: replicas that fire later in the period are refused at once,
// even if the run has ended; the next period is free for all of them.
func TestLockerKeepsTheOccurrence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		replica := func() *gocronlock.Locker[Lock] {
			k, err := gocronlock.NewLocker[Lock](locktest.Client(t, store, nil), &gocronlock.Options{
				Period: time.Minute, Periods: map[string]time.Duration{"quick": time.Second},
			})
			must.OK(t, err)
			return k
		}
		a, b := replica(), replica()
		for _, tt := range []struct {
			job    string
			period time.Duration
		}{{"report", time.Minute}, {"quick", time.Second}} {
			for range 3 {
				l, err := a.Lock(t.Context(), tt.job)
				if err != nil {
					t.Fatalf("%s: %v", tt.job, err)
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel() // as gocron does when it shuts down
				if err := l.Unlock(ended); err != nil {
					t.Errorf("%s: unlock: %v", tt.job, err)
				}
				for range 2 {
					time.Sleep(tt.period * 4 / 10)
					if _, err := b.Lock(t.Context(), tt.job); !errors.Is(err, fencelock.ErrBusy) {
						t.Fatalf("%s: a replica that fired later got %v, want busy", tt.job, err)
					}
				}
				time.Sleep(tt.period * 2 / 10)
			}
		}
	})
}

// TestLockerReportsALoss: the task goes on, so the loss is reported by the job's name.
func TestLockerReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.Faulty(t, memstore.New(nil), `on(keepalive, nth(2, cut(1m)))`)
		lost := map[string]error{}
		k, err := gocronlock.NewLocker[Lock](locktest.Client(t, store, nil), &gocronlock.Options{
			Period: time.Second, OnLost: func(job string, err error) { lost[job] = err },
		})
		must.OK(t, err)
		l, err := k.Lock(t.Context(), "report")
		must.OK(t, err)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		locktest.Is(t, lost["report"], fencelock.ErrLost)
		locktest.Is(t, l.Unlock(t.Context()), fencelock.ErrLost)
	})
}

// TestNewLockerRefuses: what would let every replica run the job is refused at the start.
func TestNewLockerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		without := locktest.Client(t, locktest.Caps(store, func(c *driver.Caps) { c.Hold = false }), nil)
		for _, tt := range []struct {
			name string
			make func() error
			want string
		}{
			{"no options", func() error { _, err := gocronlock.NewLocker[Lock](c, nil); return err }, "set it to the period"},
			{"a negative period", func() error {
				_, err := gocronlock.NewLocker[Lock](c, &gocronlock.Options{Period: -1})
				return err
			}, "set it to the period"},
			{"no period for a job", func() error {
				_, err := gocronlock.NewLocker[Lock](c, &gocronlock.Options{Periods: map[string]time.Duration{"a": 0}})
				return err
			}, `"a"`},
			{"a store that keeps no lock", func() error {
				_, err := gocronlock.NewLocker[Lock](without, &gocronlock.Options{Period: time.Second})
				return err
			}, "cannot keep a lock taken"},
			{"another type", func() error {
				_, err := gocronlock.NewLocker[interface{ Refresh() }](c, &gocronlock.Options{Period: time.Second})
				return err
			}, "NewLocker[gocron.Lock]"},
			{"a job without a period", func() error {
				k, err := gocronlock.NewLocker[Lock](c, &gocronlock.Options{Periods: map[string]time.Duration{"a": time.Second}})
				must.OK(t, err)
				_, err = k.Lock(t.Context(), "b")
				return err
			}, `period of job "b" is not known`},
		} {
			if err := tt.make(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
		}
	})
}

// TestElector: of two replicas one leads; when it closes, the other leads at once, and one
// whose client is closed says that it no longer campaigns.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		clientB := locktest.Client(t, store, nil)
		a := gocronlock.NewElector(locktest.Client(t, store, nil), "scheduler")
		synctest.Wait()
		b := gocronlock.NewElector(clientB, "scheduler")
		synctest.Wait()
		if err := a.IsLeader(t.Context()); err != nil {
			t.Errorf("the first replica: %v", err)
		}
		if err := b.IsLeader(t.Context()); err == nil || !strings.Contains(err.Error(), "another replica leads") {
			t.Errorf("the second replica: %v", err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if a.IsLeader(t.Context()) == nil || b.IsLeader(t.Context()) != nil {
			t.Errorf("after Close: %v and %v, want the second to lead", a.IsLeader(t.Context()), b.IsLeader(t.Context()))
		}
		clientB.Close(t.Context())
		synctest.Wait()
		if err := b.IsLeader(t.Context()); !errors.Is(err, fencelock.ErrClosed) {
			t.Errorf("after its client was closed: %v", err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "scheduler")
	})
}
