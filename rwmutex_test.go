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
	"github.com/fencelock/fencelock/memstore"
)

func TestReadersHoldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		a := kindClient(t, store, nil).RWMutex("x")
		b := kindClient(t, store, nil).RWMutex("x")
		ra, rb, again := kindGot(t)(a.RLock(ctx)), kindGot(t)(b.TryRLock(ctx)), kindGot(t)(a.RLock(ctx))
		if ra.Token() == rb.Token() || ra.Token() == again.Token() {
			t.Errorf("tokens %v, %v, %v: want each its own", ra.Token(), rb.Token(), again.Token())
		}
		for _, w := range []*fencelock.RWMutex{a, b} {
			kindBusy(t)(w.TryLock(ctx))
		}
		writer := kindGo(func() (*fencelock.Lease, error) { return b.Lock(ctx) })
		kindUnlock(t, ra, rb)
		writer.waits(t, "a reader is left")
		kindUnlock(t, again)
		w := writer.now(t, "the last reader has gone")
		kindBusy(t)(a.TryRLock(ctx))
		kindBusy(t)(b.TryRLock(ctx))
		if w.Token() <= ra.Token() || w.Token() <= rb.Token() || w.Token() <= again.Token() {
			t.Errorf("the writer's token %v is not above the readers'", w.Token())
		}
		kindUnlock(t, w)
		kindFree(t, store, "x")
	})
}

func TestMutexOfTheSameNameIsTheWriteLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		a, b := kindClient(t, store, nil), kindClient(t, store, nil)
		w := kindGot(t)(a.Mutex("x").Lock(ctx))
		kindBusy(t)(b.RWMutex("x").TryRLock(ctx))
		kindUnlock(t, w)
		r := kindGot(t)(b.RWMutex("x").RLock(ctx))
		kindBusy(t)(a.Mutex("x").TryLock(ctx))
		kindUnlock(t, r)
	})
}

func TestReadersOfAClientShareOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 40
		ctx := kindContext(t)
		store := memstore.New(nil)
		a, b := kindClient(t, store, nil), kindClient(t, store, nil)
		w := kindGot(t)(b.Mutex("x").Lock(ctx))
		var calls []*kindCall[*fencelock.Lease]
		for range readers {
			calls = append(calls, kindGo(func() (*fencelock.Lease, error) { return a.RWMutex("x").RLock(ctx) }))
		}
		if st := kindStatus(t, store, "x"); st.Waiting != 1 {
			t.Errorf("%d claims wait in the store, want one for all", st.Waiting)
		}
		kindUnlock(t, w)
		seen := map[fencelock.Token]bool{}
		var leases []*fencelock.Lease
		for _, c := range calls {
			l := c.now(t, "the writer has gone")
			seen[l.Token()] = true
			leases = append(leases, l)
		}
		if len(seen) != readers {
			t.Errorf("%d tokens for %d readers", len(seen), readers)
		}
		if st := kindStatus(t, store, "x"); len(st.Holders) != 1 {
			t.Errorf("%d holders in the store, want one for all", len(st.Holders))
		}
		kindUnlock(t, leases[1:]...)
		kindBusy(t)(b.Mutex("x").TryLock(ctx))
		kindUnlock(t, leases[0])
		kindUnlock(t, kindGot(t)(b.Mutex("x").TryLock(ctx)))
	})
}

func TestMoreReadersThanTokensOfOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 600 // a claim has room for 255 local tokens
		ctx := kindContext(t)
		store := memstore.New(nil)
		a, b := kindClient(t, store, nil), kindClient(t, store, nil)
		w := kindGot(t)(b.Mutex("x").Lock(ctx))
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
				kindUnlock(t, l)
			})
		}
		synctest.Wait()
		kindUnlock(t, w)
		synctest.Wait()
		seen := map[fencelock.Token]bool{}
		for range len(tokens) {
			seen[<-tokens] = true
		}
		if len(seen) != readers {
			t.Errorf("%d readers with a token of their own, want all %d together", len(seen), readers)
		}
		all.Wait()
		kindFree(t, store, "x")
	})
}

func TestWriterIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		store := memstore.New(nil)
		a, b, c := kindClient(t, store, nil), kindClient(t, store, nil), kindClient(t, store, nil)
		reading := kindGot(t)(a.RWMutex("x").RLock(ctx))
		writer := kindGo(func() (*fencelock.Lease, error) { return b.RWMutex("x").Lock(ctx) })
		// A later reader waits for the writer: in another process, in the
		// process that reads already, and in the writer's own.
		var later []*kindCall[*fencelock.Lease]
		for _, p := range []*fencelock.Client{c, a, b} {
			kindBusy(t)(p.RWMutex("x").TryRLock(ctx))
			later = append(later, kindGo(func() (*fencelock.Lease, error) { return p.RWMutex("x").RLock(ctx) }))
		}
		for i, r := range later {
			r.waits(t, fmt.Sprintf("reader %d came after the writer", i))
		}
		kindUnlock(t, reading)
		w := writer.now(t, "the readers before it have gone")
		for i, r := range later {
			r.waits(t, fmt.Sprintf("reader %d while the writer writes", i))
		}
		kindUnlock(t, w)
		for i, r := range later {
			kindUnlock(t, r.now(t, fmt.Sprintf("reader %d after the writer", i)))
		}
	})
}

func TestWriterComesThroughAStreamOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(kindContext(t))
		store := memstore.New(nil)
		var all sync.WaitGroup
		for p := range 3 { // readers that overlap, so that it is never free
			c := kindClient(t, store, nil)
			for i := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(4*p+i) * 100 * time.Millisecond)
					for ctx.Err() == nil {
						if l, err := c.RWMutex("x").RLock(ctx); err == nil {
							time.Sleep(time.Second)
							kindUnlock(t, l)
						}
					}
				})
			}
		}
		w := kindClient(t, store, nil).RWMutex("x")
		for range 20 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			l := kindGot(t)(w.Lock(ctx))
			if waited := time.Since(began); waited > time.Second {
				t.Errorf("the writer waited %v for readers that hold for a second", waited)
			}
			kindUnlock(t, l)
		}
		stop()
		all.Wait()
	})
}

func TestReaderIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(kindContext(t))
		store := memstore.New(nil)
		const writers, hold = 6, 100 * time.Millisecond
		var all sync.WaitGroup
		for p := range 2 { // several of one process, so that they pass it on
			c := kindClient(t, store, nil)
			for range writers / 2 {
				all.Go(func() {
					for ctx.Err() == nil {
						if l, err := c.RWMutex("x", fencelock.Reason(fmt.Sprint(p))).Lock(ctx); err == nil {
							time.Sleep(hold)
							kindUnlock(t, l)
						}
					}
				})
			}
		}
		r := kindClient(t, store, nil).RWMutex("x")
		// Each of the two processes before it may pass the lock on for
		// DefaultLocalHandoverFor and one hold more.
		bound := 2 * (fencelock.DefaultLocalHandoverFor + hold)
		for range 20 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			l := kindGot(t)(r.RLock(ctx))
			if waited := time.Since(began); waited > bound {
				t.Errorf("the reader waited %v, more than %v", waited, bound)
			}
			kindUnlock(t, l)
		}
		stop()
		all.Wait()
	})
}
