// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// balance is a gauge of leases as a metrics library keeps it: it must never see
// the end of a lease before its beginning. Hooks take a second to write it down.
type balance struct {
	mu    sync.Mutex
	open  map[fencelock.Token]bool
	wrong []string
	total int
}

func (b *balance) event(e fencelock.Event) {
	begins := e.Kind == fencelock.LeaseGranted || e.Kind == fencelock.LeaseHandedOff
	ends := e.Kind == fencelock.LeaseReleased || e.Kind == fencelock.LeaseLost
	if begins {
		time.Sleep(time.Second)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[fencelock.Token]bool{}
	}
	switch {
	case begins && b.open[e.Token]:
		b.wrong = append(b.wrong, fmt.Sprint(e.Kind, " ", e.Token, " again"))
	case begins:
		b.open[e.Token] = true
		b.total++
	case ends && !b.open[e.Token]:
		b.wrong = append(b.wrong, fmt.Sprint(e.Kind, " ", e.Token))
	case ends:
		delete(b.open, e.Token)
	}
}

func (b *balance) want(t *testing.T, total int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) > 0 || len(b.open) > 0 || b.total != total {
		t.Errorf("%d leases, want %d; out of order: %v; beginnings without an end: %v", b.total, total, b.wrong, b.open)
	}
}

func TestEventOfTheBeginningComesFirst(t *testing.T) {
	for name, get := range map[string]func(c *fencelock.Client) (*fencelock.Lease, error){
		"handed off":    func(c *fencelock.Client) (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctxb) },
		"read together": func(c *fencelock.Client) (*fencelock.Lease, error) { return c.RWMutex("x").RLock(ctxb) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const n = 5
				var b balance
				store := newStore()
				c := newClient(t, store, &fencelock.Options{Hooks: fencelock.Hooks{Event: b.event}, LocalHandoff: time.Hour})
				holder := lock(t, newClient(t, store, nil), "x")
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						if l, err := get(c); err != nil {
							t.Error(err)
						} else {
							unlock(t, l)
						}
					})
				}
				time.Sleep(time.Second)
				unlock(t, holder)
				wg.Wait()
				b.want(t, n)
			})
		})
	}
}

// A lease that is lost before its beginning could be announced is announced, and
// then its loss.
func TestLossBeforeTheBeginningIsAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var b balance
		store := newStore()
		c := newClient(t, store, &fencelock.Options{Hooks: fencelock.Hooks{Event: b.event}})
		l := lock(t, c, "x", fencelock.MaxHold(500*time.Millisecond))
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.LossMaxHold)
		b.want(t, 1)
	})
}
