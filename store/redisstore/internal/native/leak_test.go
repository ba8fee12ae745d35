// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// gated is a batcher whose calls are answered one by one.
type gated struct {
	batcher
	answer chan struct{}
	end    context.CancelFunc
}

func newGated() *gated {
	g := &gated{answer: make(chan struct{})}
	s := &session{store: &Store{}, ttl: time.Hour}
	s.ctx, g.end = context.WithCancel(context.Background())
	g.init(s, func(context.Context, *batch) error { <-g.answer; return nil })
	return g
}

// ask queues an operation, and answered answers one call; both return when nothing moves any more.
func (g *gated) ask(ctx context.Context) {
	go func() { _ = g.do(ctx, newOperation()) }()
	synctest.Wait()
}

func (g *gated) answered() {
	g.answer <- struct{}{}
	synctest.Wait()
}

// twoSenders makes the batcher have two senders that wait for work.
func (g *gated) twoSenders(ctx context.Context) {
	g.ask(ctx)
	g.ask(ctx)
	g.ask(ctx) // queued
	g.answered()
	g.ask(ctx)
	g.answered()
	for g.busy() > 0 {
		g.answered()
	}
}

func (g *gated) busy() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight
}

// TestSendersEndWithTheSession: a session that ends while operations are queued leaves no goroutine, whether they are
// answered or given up. A bubble fails if a goroutine is left.
func TestSendersEndWithTheSession(t *testing.T) {
	for _, given := range []bool{false, true} {
		t.Run(fmt.Sprint("given up: ", given), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGated()
				g.twoSenders(t.Context())
				if g.senders != 2 || g.idle != 2 {
					t.Fatalf("%d senders, %d of them idle; want two, so this shows nothing", g.senders, g.idle)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				g.ask(t.Context())
				g.ask(t.Context())
				g.ask(ctx) // queued
				g.end()
				synctest.Wait()
				if given {
					cancel()
					synctest.Wait()
				}
				for g.busy() > 0 {
					g.answered()
				}
				if g.senders != 0 {
					t.Errorf("%d senders are left", g.senders)
				}
			})
		})
	}
}

// TestRunsKeepNoTexts: a process remembers the run ids of many restarts, and not the texts of scripts for each of them.
func TestRunsKeepNoTexts(t *testing.T) {
	var r runs
	r.of("first")
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const restarts = 50
	before := heap()
	for i := range restarts {
		r.of(fmt.Sprint("run", i))
	}
	if each := (heap() - before) / restarts; each > 20_000 {
		t.Errorf("each restart of a server costs the process %d bytes", each)
	}
	runtime.KeepAlive(&r)
}
