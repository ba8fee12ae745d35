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
	"github.com/fencelock/fencelock/memstore"
)

// kindDiary is what the candidates of an election write down.
type kindDiary struct {
	mu    sync.Mutex
	lines []string
	terms []fencelock.Token
}

func (d *kindDiary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns what was written since the last take.
func (d *kindDiary) take() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *kindDiary) want(t *testing.T, want ...string) {
	t.Helper()
	if got := d.take(); !slices.Equal(got, want) {
		t.Fatalf("got  %s\nwant %s", strings.Join(got, " | "), strings.Join(want, " | "))
	}
}

// lead leads until it is told to stop.
func (d *kindDiary) lead(who string) func(context.Context, *fencelock.Lease) error {
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
		var diary kindDiary
		// a is cut off at its third renewal, for a minute: longer than Patience.
		a := kindClient(t, kindFaulty(t, store, `on(keepalive, nth(3, cut(1m)))`), nil).Election("leader")
		b := kindClient(t, store, nil).Election("leader")
		ctxA, stopA := context.WithCancel(kindContext(t))
		ctxB, stopB := context.WithCancel(kindContext(t))
		runA := kindGo(kindErr(func() error { return a.Run(ctxA, diary.lead("a")) }))
		runB := kindGo(kindErr(func() error { return b.Run(ctxB, diary.lead("b")) }))
		diary.want(t, "a leads")
		time.Sleep(50 * time.Second)
		diary.want(t, "a lost it", "b leads") // in this order: never two at a time
		time.Sleep(2 * time.Minute)           // the connection heals
		diary.want(t)
		stopB()
		_, err := runB.wait()
		kindIs(t, err, context.Canceled)
		time.Sleep(time.Second)
		diary.want(t, "b stopped: context canceled", "a leads")
		stopA()
		_, err = runA.wait()
		kindIs(t, err, context.Canceled)
		diary.want(t, "a stopped: context canceled")
		if len(diary.terms) != 3 {
			t.Errorf("terms %v, want three", diary.terms)
		}
		kindFree(t, store, "leader")
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
				ctx, stop := context.WithCancel(kindContext(t))
				store := memstore.New(nil)
				e := kindClient(t, kindFaulty(t, store, `on(keepalive, nth(2, cut(20s)))`), nil).Election("leader")
				terms := 0
				run := kindGo(kindErr(func() error {
					return e.Run(ctx, func(ctx context.Context, term *fencelock.Lease) error {
						if terms++; terms > 1 {
							<-ctx.Done()
							return nil
						}
						return lead(ctx, term)
					})
				}))
				time.Sleep(2 * time.Minute)
				run.waits(t, "after a loss")
				if terms != 2 {
					t.Errorf("led %d times, want again after the loss", terms)
				}
				stop()
				_, err := run.wait()
				kindIs(t, err, context.Canceled)
			})
		})
	}
}

func TestElectionResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(kindContext(t))
		store := memstore.New(nil)
		var diary kindDiary
		a, b := kindClient(t, store, nil).Election("leader"), kindClient(t, store, nil).Election("leader")
		runA := kindGo(kindErr(func() error { return a.Run(ctx, diary.lead("a")) }))
		runB := kindGo(kindErr(func() error { return b.Run(ctx, diary.lead("b")) }))
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
		for _, run := range []*kindCall[struct{}]{runA, runB} {
			_, err := run.wait()
			kindIs(t, err, context.Canceled)
		}
		kindFree(t, store, "leader")
	})
}

func TestElectionResignWaitsForLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(kindContext(t))
		store := memstore.New(nil)
		e := kindClient(t, store, nil).Election("leader")
		run := kindGo(kindErr(func() error {
			return e.Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
				<-ctx.Done()
				time.Sleep(10 * time.Second) // needs that long to stop
				return nil
			})
		}))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		kindIs(t, e.Resign(short), context.DeadlineExceeded)
		if len(kindStatus(t, store, "leader").Holders) == 0 {
			t.Error("the lock was given back although lead has not returned")
		}
		time.Sleep(time.Minute)
		run.waits(t, "after resigning")
		if err := e.Resign(ctx); err != nil { // of its second term
			t.Error(err)
		}
		stop()
		_, err := run.wait()
		kindIs(t, err, context.Canceled)
	})
}

func TestElectionEndsWithLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := kindClient(t, store, nil)
		e := c.Election("leader")
		own := errors.New("disk full")
		for _, want := range []error{nil, own} {
			err := e.Run(kindContext(t), func(context.Context, *fencelock.Lease) error { return want })
			if !errors.Is(err, want) || (want == nil && err != nil) {
				t.Errorf("lead returned %v, Run %v", want, err)
			}
			kindFree(t, store, "leader")
		}
		// An error of lead's own counts also when it was told to stop.
		run := kindGo(kindErr(func() error {
			return e.Run(kindContext(t), func(ctx context.Context, _ *fencelock.Lease) error { <-ctx.Done(); return own })
		}))
		if err := e.Resign(kindContext(t)); err != nil {
			t.Error(err)
		}
		_, err := run.wait()
		kindIs(t, err, own)
		if what := kindPanics(func() {
			_ = e.Run(kindContext(t), func(context.Context, *fencelock.Lease) error { panic("lead") })
		}); what != "lead" {
			t.Errorf("Run panicked with %v, want lead's panic", what)
		}
		kindFree(t, store, "leader")
		if err := e.Resign(kindContext(t)); err != nil { // it must not wait for a term that has ended
			t.Error(err)
		}
	})
}

func TestElectionEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var diary kindDiary
		for _, leads := range []bool{true, false} {
			c, err := fencelock.New(store, nil)
			if err != nil {
				t.Fatal(err)
			}
			var other *fencelock.Lease
			if !leads {
				other = kindGot(t)(kindClient(t, store, nil).Mutex("leader").Lock(kindContext(t)))
			}
			run := kindGo(kindErr(func() error { return c.Election("leader").Run(kindContext(t), diary.lead("c")) }))
			if err := c.Close(kindContext(t)); err != nil {
				t.Fatal(err)
			}
			_, err = run.wait()
			kindIs(t, err, fencelock.ErrClosed)
			if other != nil {
				kindUnlock(t, other)
			}
		}
		diary.want(t, "c leads", "c stopped: fencelock: client closed")
	})
}
