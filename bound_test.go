// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// TestBoundEnds: the context of a call ends after the call timeout, with the caller,
// and with what the call belongs to, whichever is first, shared or not.
func TestBoundEnds(t *testing.T) {
	for name, calls := range map[string]int{"shared": 0, "own": 1, "regular": regular} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, end := context.WithCancel(context.Background())
				b := &bound{parent: parent, timeout: 8 * time.Second}
				caller := context.WithValue(context.Background(), key{}, "value")
				if calls > 0 {
					var cancel context.CancelFunc
					caller, cancel = context.WithCancel(caller)
					defer cancel()
				}
				for range calls - 1 {
					_, over := b.context(caller)
					over()
				}
				call, over := b.context(caller)
				defer over()
				if call.Value(key{}) != "value" {
					t.Error("the caller's values are lost")
				}
				began := time.Now()
				<-call.Done()
				if took := time.Since(began); took != b.timeout || !errors.Is(call.Err(), context.DeadlineExceeded) {
					t.Errorf("it ended after %v with %v, want %v and the deadline", took, call.Err(), b.timeout)
				}
				call, over = b.context(caller)
				defer over()
				end()
				<-call.Done()
			})
		})
	}
}

// TestBoundIsShared: calls that begin together share a context, later ones have as
// much time, less an eighth at most.
func TestBoundIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{parent: context.Background(), timeout: 8 * time.Second}
		first, _ := b.context(context.Background())
		for range 20 {
			time.Sleep(300 * time.Millisecond)
			call, _ := b.context(context.Background())
			deadline, _ := call.Deadline()
			if left := time.Until(deadline); left > b.timeout || left < b.timeout*7/8 {
				t.Fatalf("a call has %v", left)
			}
		}
		second, _ := b.context(context.Background())
		if d1, _ := first.Deadline(); !d1.Before(func() time.Time { d, _ := second.Deadline(); return d }()) {
			t.Error("the first context was given out for ever")
		}
	})
}

// TestBoundOfARegular: who comes again and again with one context shares it with
// himself. Calls end with that context; each has the values of its own caller; and
// the context is not kept when it is over.
func TestBoundOfARegular(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancel(context.Background())
		defer end()
		b := &bound{parent: parent, timeout: 8 * time.Second}
		shared, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "common"))
		var first context.Context
		for i := range 2 * regular {
			call, over := b.context(context.WithValue(shared, key{}, i))
			if got := call.Value(key{}); got != i {
				t.Errorf("call %d has the value %v", i, got)
			}
			over()
			switch {
			case i < regular-1 && call.Err() == nil:
				t.Errorf("call %d has a context that outlives it", i)
			case i == regular-1:
				first = call
			case i >= regular && call.Done() != first.Done():
				t.Errorf("call %d has a context of its own", i)
			}
		}
		began := time.Now()
		cancel()
		<-first.Done()
		if time.Since(began) > 0 || !errors.Is(first.Err(), context.Canceled) {
			t.Errorf("a call ended %v after its caller, with %v", time.Since(began), first.Err())
		}
		synctest.Wait()
		for _, at := range b.seats {
			if at.span != nil {
				t.Error("the context of a caller that is over is kept")
			}
		}
	})
}

// TestBoundOfARegularInAHurry: a caller's own deadline counts if it is sooner.
func TestBoundOfARegularInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{parent: context.Background(), timeout: 8 * time.Second}
		caller, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		want, _ := caller.Deadline()
		var call context.Context
		for range regular + 1 {
			call, _ = b.context(caller)
		}
		if got, ok := call.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("the call has until %v, its caller until %v", got, want)
		}
		<-call.Done()
		if !time.Now().Equal(want) || !errors.Is(call.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended at %v with %v, want %v and the deadline", time.Now(), call.Err(), want)
		}
	})
}

// TestBoundKeepsSeats: callers that come once neither put off one that comes often nor
// are kept for ever; there is room again when they have stayed away.
func TestBoundKeepsSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{parent: context.Background(), timeout: 8 * time.Second}
		comeOften := func() (shared bool) {
			often, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			var last [2]context.Context
			for i := range regular + 1 {
				last[i%2], _ = b.context(often)
			}
			return last[0].Done() == last[1].Done()
		}
		if !comeOften() {
			t.Fatal("one that comes often has no seat")
		}
		for range 3 * maxSeats {
			once, done := context.WithCancel(context.Background())
			_, over := b.context(once)
			over()
			done()
		}
		if len(b.seats) > maxSeats {
			t.Errorf("%d seats are taken, by callers that came once", len(b.seats))
		}
		time.Sleep(b.timeout / 8)
		if !comeOften() {
			t.Error("there is no seat for one that comes often after many that came once")
		}
	})
}
