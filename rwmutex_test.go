// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestReadersHoldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a := locktest.Client(t, store, nil).RWMutex("x")
		b := locktest.Client(t, store, nil).RWMutex("x")
		ra, rb, again := locktest.Got(t)(a.RLock(ctx)), locktest.Got(t)(b.TryRLock(ctx)), locktest.Got(t)(a.RLock(ctx))
		if ra.Token() == rb.Token() || ra.Token() == again.Token() {
			t.Errorf("tokens %v, %v, %v: want each its own", ra.Token(), rb.Token(), again.Token())
		}
		for _, w := range []*fencelock.RWMutex{a, b} {
			locktest.Busy(t)(w.TryLock(ctx))
		}
		writer := locktest.Go(func() (*fencelock.Lease, error) { return b.Lock(ctx) })
		locktest.Unlock(t, ra, rb)
		writer.Waits(t, "a reader is left")
		locktest.Unlock(t, again)
		w := writer.Now(t, "the last reader has gone")
		locktest.Busy(t)(a.TryRLock(ctx))
		locktest.Busy(t)(b.TryRLock(ctx))
		if w.Token() <= ra.Token() || w.Token() <= rb.Token() || w.Token() <= again.Token() {
			t.Errorf("the writer's token %v is not above the readers'", w.Token())
		}
		locktest.Unlock(t, w)
		locktest.Free(t, store, "x")
	})
}

func TestMutexOfTheSameNameIsTheWriteLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		w := locktest.Got(t)(a.Mutex("x").Lock(ctx))
		locktest.Busy(t)(b.RWMutex("x").TryRLock(ctx))
		locktest.Unlock(t, w)
		r := locktest.Got(t)(b.RWMutex("x").RLock(ctx))
		locktest.Busy(t)(a.Mutex("x").TryLock(ctx))
		locktest.Unlock(t, r)
	})
}

func TestReadersOfAClientShareOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 40
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		w := locktest.Got(t)(b.Mutex("x").Lock(ctx))
		var calls []*locktest.Call[*fencelock.Lease]
		for range readers {
			calls = append(calls, locktest.Go(func() (*fencelock.Lease, error) { return a.RWMutex("x").RLock(ctx) }))
		}
		if st := locktest.Status(t, store, "x"); st.Waiting != 1 {
			t.Errorf("%d claims wait in the store, want one for all", st.Waiting)
		}
		locktest.Unlock(t, w)
		seen := map[fencelock.Token]bool{}
		var leases []*fencelock.Lease
		for _, c := range calls {
			l := c.Now(t, "the writer has gone")
			seen[l.Token()] = true
			leases = append(leases, l)
		}
		if len(seen) != readers {
			t.Errorf("%d tokens for %d readers", len(seen), readers)
		}
		if st := locktest.Status(t, store, "x"); len(st.Holders) != 1 {
			t.Errorf("%d holders in the store, want one for all", len(st.Holders))
		}
		locktest.Unlock(t, leases[1:]...)
		locktest.Busy(t)(b.Mutex("x").TryLock(ctx))
		locktest.Unlock(t, leases[0])
		locktest.Unlock(t, locktest.Got(t)(b.Mutex("x").TryLock(ctx)))
	})
}

func TestMoreReadersThanTokensOfOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 600 // a claim has room for 255 local tokens
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b := locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		w := locktest.Got(t)(b.Mutex("x").Lock(ctx))
		tokens := make(chan fencelock.Token, readers)
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				l, err := a.RWMutex("x").RLock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				tokens <- l.Token()
				time.Sleep(time.Second)
				locktest.Unlock(t, l)
			})
		}
		synctest.Wait()
		locktest.Unlock(t, w)
		synctest.Wait()
		seen := map[fencelock.Token]bool{}
		for range len(tokens) {
			seen[<-tokens] = true
		}
		if len(seen) != readers {
			t.Errorf("%d readers with a token of their own, want all %d together", len(seen), readers)
		}
		all.Wait()
		locktest.Free(t, store, "x")
	})
}

func TestWriterIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := memstore.New(nil)
		a, b, c := locktest.Client(t, store, nil), locktest.Client(t, store, nil), locktest.Client(t, store, nil)
		reading := locktest.Got(t)(a.RWMutex("x").RLock(ctx))
		writer := locktest.Go(func() (*fencelock.Lease, error) { return b.RWMutex("x").Lock(ctx) })
		// A later reader waits for the writer: in another process, in the
		// process that reads already, and in the writer's own.
		var later []*locktest.Call[*fencelock.Lease]
		for _, p := range []*fencelock.Client{c, a, b} {
			locktest.Busy(t)(p.RWMutex("x").TryRLock(ctx))
			later = append(later, locktest.Go(func() (*fencelock.Lease, error) { return p.RWMutex("x").RLock(ctx) }))
		}
		for i, r := range later {
			r.Waits(t, fmt.Sprintf("reader %d came after the writer", i))
		}
		locktest.Unlock(t, reading)
		w := writer.Now(t, "the readers before it have gone")
		for i, r := range later {
			r.Waits(t, fmt.Sprintf("reader %d while the writer writes", i))
		}
		locktest.Unlock(t, w)
		for i, r := range later {
			locktest.Unlock(t, r.Now(t, fmt.Sprintf("reader %d after the writer", i)))
		}
	})
}

func TestWriterComesThroughAStreamOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		var all sync.WaitGroup
		for p := range 3 { // readers that overlap, so that it is never free
			c := locktest.Client(t, store, nil)
			for i := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(4*p+i) * 100 * time.Millisecond)
					for ctx.Err() == nil {
						if l, err := c.RWMutex("x").RLock(ctx); err == nil {
							time.Sleep(time.Second)
							locktest.Unlock(t, l)
						}
					}
				})
			}
		}
		w := locktest.Client(t, store, nil).RWMutex("x")
		for range 20 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			l := locktest.Got(t)(w.Lock(ctx))
			if waited := time.Since(began); waited > time.Second {
				t.Errorf("the writer waited %v for readers that hold for a second", waited)
			}
			locktest.Unlock(t, l)
		}
		stop()
		all.Wait()
	})
}

func TestReaderIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		const writers, hold = 6, 100 * time.Millisecond
		var all sync.WaitGroup
		for p := range 2 { // several of one process, so that they pass it on
			c := locktest.Client(t, store, nil)
			for range writers / 2 {
				all.Go(func() {
					for ctx.Err() == nil {
						if l, err := c.RWMutex("x", fencelock.Reason(fmt.Sprint(p))).Lock(ctx); err == nil {
							time.Sleep(hold)
							locktest.Unlock(t, l)
						}
					}
				})
			}
		}
		r := locktest.Client(t, store, nil).RWMutex("x")
		// Each of the two processes before it may pass the lock on for
		// DefaultLocalHandoff and one hold more.
		bound := 2 * (fencelock.DefaultLocalHandoff + hold)
		for range 20 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			l := locktest.Got(t)(r.RLock(ctx))
			if waited := time.Since(began); waited > bound {
				t.Errorf("the reader waited %v, more than %v", waited, bound)
			}
			locktest.Unlock(t, l)
		}
		stop()
		all.Wait()
	})
}
