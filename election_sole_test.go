// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

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
		if err := c.Election("leader").Run(locktest.Context(t), func(ctx context.Context, term *fencelock.Lease) error {
			first = term.Token()
			return inner(ctx, term)
		}); err != nil {
			t.Fatal(err)
		}
		if second := <-terms; second <= first {
			t.Errorf("term %v after term %v", second, first)
		}
		if err := c.Do(locktest.Context(t), "leader", inner); err != nil {
			t.Fatal(err)
		}
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
