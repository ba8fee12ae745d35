// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// diary is what the candidates of an election write down.
type diary struct {
	mu    sync.Mutex
	lines []string
	terms []fencelock.Token
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns what was written since the last take.
func (d *diary) take() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	if got := d.take(); !slices.Equal(got, want) {
		t.Fatalf("got  %s\nwant %s", strings.Join(got, " | "), strings.Join(want, " | "))
	}
}

// lead leads until the context of its term is canceled.
func (d *diary) lead(who string) func(context.Context, *fencelock.Lease) error {
	return func(ctx context.Context, term *fencelock.Lease) error {
		d.mu.Lock()
		if n := len(d.terms); n > 0 && term.Token() <= d.terms[n-1] {
			d.lines = append(d.lines, fmt.Sprintf("term %v is not above %v", term.Token(), d.terms[n-1]))
		}
		d.terms = append(d.terms, term.Token())
		d.mu.Unlock()
		d.add("%s leads", who)
		<-ctx.Done()
		cause := context.Cause(ctx)
		switch {
		case errors.Is(cause, fencelock.ErrLost):
			d.add("%s lost it", who)
		case errors.Is(cause, fencelock.ErrResigned):
			d.add("%s resigned", who)
		default:
			d.add("%s stopped: %v", who, cause)
		}
		return ctx.Err()
	}
}

func TestElectionCampaignsAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var diary diary
		// a is cut off at its third renewal, for a minute: longer than StoreTimeout.
		a := locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(3, cut(1m)))`), nil).Election("leader")
		b := locktest.Client(t, store, nil).Election("leader")
		ctxA, stopA := context.WithCancel(locktest.Context(t))
		ctxB, stopB := context.WithCancel(locktest.Context(t))
		runA := locktest.Go(locktest.Err(func() error { return a.Run(ctxA, diary.lead("a")) }))
		runB := locktest.Go(locktest.Err(func() error { return b.Run(ctxB, diary.lead("b")) }))
		diary.want(t, "a leads")
		time.Sleep(50 * time.Second)
		diary.want(t, "a lost it", "b leads") // in this order: never two at a time
		time.Sleep(2 * time.Minute)           // the connection heals
		diary.want(t)
		stopB()
		_, err := runB.Wait()
		locktest.Is(t, err, context.Canceled)
		time.Sleep(time.Second)
		diary.want(t, "b stopped: context canceled", "a leads")
		stopA()
		_, err = runA.Wait()
		locktest.Is(t, err, context.Canceled)
		diary.want(t, "a stopped: context canceled")
		if len(diary.terms) != 3 {
			t.Errorf("terms %v, want three", diary.terms)
		}
		locktest.Free(t, store, "leader")
	})
}

// Whichever way lead notices the loss, Run campaigns again.
func TestElectionCampaignsAgainHoweverTheLossIsNoticed(t *testing.T) {
	notice := map[string]func(ctx context.Context, term *fencelock.Lease) error{
		"lease context": func(_ context.Context, term *fencelock.Lease) error {
			<-term.Context().Done()
			return context.Cause(term.Context())
		},
		"own error": func(ctx context.Context, term *fencelock.Lease) error {
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		},
		"nil": func(ctx context.Context, term *fencelock.Lease) error {
			<-ctx.Done()
			return nil
		},
		"clock": func(ctx context.Context, term *fencelock.Lease) error {
			for term.Valid() {
				time.Sleep(time.Second)
			}
			return term.Err()
		},
	}
	for name, lead := range notice {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(locktest.Context(t))
				store := memstore.New(nil)
				e := locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(2, cut(20s)))`), nil).Election("leader")
				terms := 0
				run := locktest.Go(locktest.Err(func() error {
					return e.Run(ctx, func(ctx context.Context, term *fencelock.Lease) error {
						if terms++; terms > 1 {
							<-ctx.Done()
							return nil
						}
						return lead(ctx, term)
					})
				}))
				time.Sleep(2 * time.Minute)
				run.Waits(t, "after a loss")
				if terms != 2 {
					t.Errorf("led %d times, want again after the loss", terms)
				}
				stop()
				_, err := run.Wait()
				locktest.Is(t, err, context.Canceled)
			})
		})
	}
}

func TestElectionResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		var diary diary
		a, b := locktest.Client(t, store, nil).Election("leader"), locktest.Client(t, store, nil).Election("leader")
		runA := locktest.Go(locktest.Err(func() error { return a.Run(ctx, diary.lead("a")) }))
		runB := locktest.Go(locktest.Err(func() error { return b.Run(ctx, diary.lead("b")) }))
		diary.want(t, "a leads")
		if err := b.Resign(ctx); err != nil { // it does not lead
			t.Error(err)
		}
		diary.want(t)
		for _, step := range []struct {
			e    *fencelock.Election
			want []string
		}{{a, []string{"a resigned", "b leads"}}, {b, []string{"b resigned", "a leads"}}} {
			if err := step.e.Resign(ctx); err != nil {
				t.Error(err)
			}
			diary.want(t, step.want...)
		}
		stop()
		for _, run := range []*locktest.Call[struct{}]{runA, runB} {
			_, err := run.Wait()
			locktest.Is(t, err, context.Canceled)
		}
		locktest.Free(t, store, "leader")
	})
}

// TestElectionStepsDownFromInside: lead returns ErrResigned to let another candidate
// lead, and Run campaigns again behind it.
func TestElectionStepsDownFromInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		var diary diary
		a, b := locktest.Client(t, store, nil).Election("leader"), locktest.Client(t, store, nil).Election("leader")
		done := make(chan struct{})
		runA := locktest.Go(locktest.Err(func() error {
			return a.Run(ctx, func(context.Context, *fencelock.Lease) error {
				<-done
				return fmt.Errorf("enough: %w", fencelock.ErrResigned)
			})
		}))
		runB := locktest.Go(locktest.Err(func() error { return b.Run(ctx, diary.lead("b")) }))
		diary.want(t)
		done <- struct{}{}
		diary.want(t, "b leads")
		if err := b.Resign(ctx); err != nil { // a waited behind it
			t.Error(err)
		}
		diary.want(t, "b resigned")
		done <- struct{}{}
		diary.want(t, "b leads")
		stop()
		for _, run := range []*locktest.Call[struct{}]{runA, runB} {
			_, err := run.Wait()
			locktest.Is(t, err, context.Canceled)
		}
	})
}

func TestElectionResignWaitsForLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		e := locktest.Client(t, store, nil).Election("leader")
		run := locktest.Go(locktest.Err(func() error {
			return e.Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
				<-ctx.Done()
				time.Sleep(10 * time.Second) // needs that long to stop
				return nil
			})
		}))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		locktest.Is(t, e.Resign(short), context.DeadlineExceeded)
		if len(locktest.Status(t, store, "leader").Holders) == 0 {
			t.Error("the lock was given back although lead has not returned")
		}
		time.Sleep(time.Minute)
		run.Waits(t, "after resigning")
		if err := e.Resign(ctx); err != nil { // of its second term
			t.Error(err)
		}
		stop()
		_, err := run.Wait()
		locktest.Is(t, err, context.Canceled)
	})
}

func TestElectionEndsWithLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		e := c.Election("leader")
		own := errors.New("disk full")
		for _, want := range []error{nil, own} {
			err := e.Run(locktest.Context(t), func(context.Context, *fencelock.Lease) error { return want })
			if !errors.Is(err, want) || (want == nil && err != nil) {
				t.Errorf("lead returned %v, Run %v", want, err)
			}
			locktest.Free(t, store, "leader")
		}
		// lead's own error is returned even when its context was canceled.
		run := locktest.Go(locktest.Err(func() error {
			return e.Run(locktest.Context(t), func(ctx context.Context, _ *fencelock.Lease) error { <-ctx.Done(); return own })
		}))
		if err := e.Resign(locktest.Context(t)); err != nil {
			t.Error(err)
		}
		_, err := run.Wait()
		locktest.Is(t, err, own)
		if what := locktest.Panics(func() {
			_ = e.Run(locktest.Context(t), func(context.Context, *fencelock.Lease) error { panic("lead") })
		}); what != "lead" {
			t.Errorf("Run panicked with %v, want lead's panic", what)
		}
		locktest.Free(t, store, "leader")
		// It must not wait for a term that has ended, and says that nothing resigned.
		if err := e.Resign(locktest.Context(t)); err == nil || !strings.Contains(err.Error(), "Run was not called on this Election") {
			t.Errorf("Resign after Run: %v", err)
		}
	})
}

func TestElectionEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var diary diary
		for _, leads := range []bool{true, false} {
			c, err := fencelock.New(store, nil)
			must.OK(t, err)
			var other *fencelock.Lease
			if !leads {
				other = locktest.Got(t)(locktest.Client(t, store, nil).Mutex("leader").Lock(locktest.Context(t)))
			}
			run := locktest.Go(locktest.Err(func() error { return c.Election("leader").Run(locktest.Context(t), diary.lead("c")) }))
			must.OK(t, c.Close(locktest.Context(t)))
			_, err = run.Wait()
			locktest.Is(t, err, fencelock.ErrClosed)
			if other != nil {
				locktest.Unlock(t, other)
			}
		}
		diary.want(t, "c leads", "c stopped: fencelock: client closed")
	})
}

// A leader that resigns each term at once, or a Resign that comes late and ends the
// next term, must not make Run call the store without a pause.
func TestElectionPausesAfterATermThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		campaigns := fencelock.Hooks{AcquireStart: func(ctx context.Context, _ fencelock.AcquireStart) context.Context { n++; return ctx }}
		e := locktest.Client(t, memstore.New(nil), &fencelock.Options{TTL: 10 * time.Second, Hooks: campaigns}).Election("leader")
		ctx, cancel := context.WithTimeout(locktest.Context(t), 10*time.Second)
		defer cancel()
		var last time.Time
		terms := 0
		atOnce := errors.New("terms without a pause in between")
		err := e.Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
			if terms++; terms > 2 && time.Now().Equal(last) { // the first is no reason to pause
				return atOnce
			}
			last = time.Now()
			go func() { _ = e.Resign(context.WithoutCancel(ctx)) }()
			<-ctx.Done()
			return nil
		})
		locktest.Is(t, err, context.DeadlineExceeded)
		if n < 3 || n > 15 {
			t.Errorf("%d campaigns in ten seconds, want a few, with a pause that grows", n)
		}
	})
}

// One short term is no reason to pause, and a longer term makes the pauses short again.
func TestElectionCampaignsAgainAtOnceAfterALongerTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		e := locktest.Client(t, memstore.New(nil), &fencelock.Options{TTL: ttl}).Election("leader")
		ctx, cancel := context.WithCancel(locktest.Context(t))
		defer cancel()
		terms := []time.Duration{0, 0, 0, 0, 0, 0, time.Minute, 0, 0}
		var over time.Time
		var pauses []time.Duration
		err := e.Run(ctx, func(term context.Context, _ *fencelock.Lease) error {
			if !over.IsZero() {
				pauses = append(pauses, time.Since(over))
			}
			if len(pauses) == len(terms) {
				cancel()
				return nil
			}
			length := terms[len(pauses)]
			go func() {
				time.Sleep(length)
				_ = e.Resign(ctx)
			}()
			<-term.Done()
			over = time.Now()
			return nil
		})
		locktest.Is(t, err, context.Canceled)
		for i, paused := range pauses {
			if want := i != 0 && i != 6 && i != 7; want != (paused > 0) {
				t.Errorf("paused for %v after term %d: %v", paused, i, pauses)
			}
		}
		if pauses[5] < ttl/10 || pauses[8] > ttl/50 {
			t.Errorf("pauses %v: want them to grow, and to be short again after a longer term", pauses)
		}
	})
}

// A candidate under the context of a term, or of another lease of that name, is one candidate
// more: there is one leader, and terms rise.
func TestElectionDoesNotReenter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		terms := make(chan fencelock.Token, 1)
		inner := func(ctx context.Context, _ *fencelock.Lease) error {
			campaign, cancel := context.WithCancel(context.WithoutCancel(ctx))
			t.Cleanup(cancel)
			go c.Election("leader").Run(campaign, func(_ context.Context, term *fencelock.Lease) error {
				terms <- term.Token()
				return nil
			})
			synctest.Wait()
			if len(terms) > 0 {
				t.Fatalf("a second leader with term %v while the first leads", <-terms)
			}
			return nil
		}
		var first fencelock.Token
		must.OK(t, c.Election("leader").Run(locktest.Context(t), func(ctx context.Context, term *fencelock.Lease) error {
			first = term.Token()
			return inner(ctx, term)
		}))
		if second := <-terms; second <= first {
			t.Errorf("term %v after term %v", second, first)
		}
		must.OK(t, c.Do(locktest.Context(t), "leader", inner))
		<-terms
	})
}

// A term of a second is no term that ended at once, although it is far shorter than the TTL:
// the candidate does not pause after it.
func TestElectionDoesNotPauseAfterTermsOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := locktest.Client(t, memstore.New(nil), nil).Election("leader")
		began, n := time.Now(), 0
		err := e.Run(locktest.Context(t), func(context.Context, *fencelock.Lease) error {
			time.Sleep(time.Second)
			if n++; n < 5 {
				return fencelock.ErrResigned
			}
			return nil
		})
		if took := time.Since(began); err != nil || took != 5*time.Second {
			t.Errorf("five terms of a second took %v, %v", took, err)
		}
	})
}
