// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// loss is a way to lose data under a holder that must not notice.
type loss struct {
	lib library
	to  login
	ttl time.Duration
	// prepare is called before the lease that the data will not have; lose
	// returns when the new incarnation is there.
	prepare func(l *timeline) (lose func())
}

// survives checks that with grace a holder keeps what the store lost, no
// other client gets anything inside the grace, and tokens rise.
func (c loss) survives(t *testing.T) {
	l := newTimeline(t)
	opts := native.Options{Namespace: "grace", Grace: true, MaxTTL: c.ttl, Buckets: 1}
	come := func(name string) *party { // with its own connections
		return join(t, l, name, c.lib.open(t, c.to, &opts), fencelock.Options{TTL: c.ttl, Require: fencelock.Correctness})
	}
	holder, other := come("holder"), come("other")
	remembered := holder.lock("remembered") // after the grace period of the new namespace
	lose := c.prepare(l)
	gone := holder.lock("gone")
	released := other.lock("free")
	unlock(t, released)
	waiter := other.start("gone")
	other.await(fencelock.LeaseWaiting, 1)
	l.note("the store loses its data")
	lose()
	l.note("the store is back")
	holder.await(fencelock.SessionResumed, 1)
	newcomer := come("new")
	var err error
	redistest.WaitFor(t, "TryLock is answered", func() bool {
		_, err = newcomer.Mutex("free").TryLock(t.Context())
		return !errors.Is(err, fencelock.ErrUnavailable)
	})
	if !errors.Is(err, fencelock.ErrGrace) {
		t.Errorf("inside the grace TryLock of a free lock says: %v", err)
	}
	free := newcomer.start("free")
	for poll := time.NewTicker(c.ttl / 20); newcomer.status("free").Grace > 0; <-poll.C {
		for _, lease := range []*fencelock.Lease{remembered, gone} {
			wantHeld(t, newcomer, lease)
		}
	}
	l.note("the grace is over")
	if waiter.over() {
		t.Fatalf("another client got the lock while it was held: %v", waiter.err)
	}
	if next := free.wait(t, c.ttl+slack); next.Token() <= released.Token() {
		t.Errorf("token %v after %v", next.Token(), released.Token())
	}
	wantHeld(t, newcomer, remembered)
	wantHeld(t, newcomer, gone)
	unlock(t, gone)
	if next := waiter.wait(t, c.ttl*11/10+slack); next.Token() <= gone.Token() {
		t.Errorf("token %v after %v", next.Token(), gone.Token())
	}
	unlock(t, remembered)
	holder.never(fencelock.LeaseLost)
}

// A master dies while its replicas lag: they never saw the grant.
func TestFailoverKeepsTheLease(t *testing.T) {
	everywhere(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		set := flavor.StartSentinels(t, redistest.Soon)
		loss{
			lib: lib, to: login{Sentinels: set.Addrs},
			ttl: 12 * time.Second, // a failover takes three, on a good day
			prepare: func(l *timeline) func() {
				set.PauseReplication()
				l.note("the replicas lag from now on")
				return func() {
					old := set.KillMaster()
					l.note("the master was killed")
					set.WaitPromoted(old)
					l.note("a replica was promoted")
				}
			},
		}.survives(t)
	})
}

// Without grace there is no exclusion in time, and the tokens still rise.
func TestFailoverWithoutGrace(t *testing.T) {
	everywhere(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		l, set := newTimeline(t), flavor.StartSentinels(t, redistest.Soon)
		const ttl = 8 * time.Second
		come := func(name string) *party {
			return join(t, l, name, lib.open(t, login{Sentinels: set.Addrs}, nil), fencelock.Options{TTL: ttl})
		}
		holder, other := come("holder"), come("other")
		unlock(t, holder.lock("x"))
		wantHonest(t, holder.Guarantees(), lib.open(t, login{Sentinels: set.Addrs}, nil))

		set.PauseReplication()
		held := holder.lock("x")
		waiter := other.start("x")
		other.await(fencelock.LeaseWaiting, 1)
		old := set.KillMaster()
		l.note("the master was killed")
		set.WaitPromoted(old)
		l.note("a replica was promoted")
		next := waiter.wait(t, 2*ttl+slack)
		if next.Token() <= held.Token() {
			t.Errorf("token %v after %v", next.Token(), held.Token())
		}
		holder.await(fencelock.LeaseLost, 1)
		if err := held.Err(); !errors.Is(err, fencelock.ErrLost) {
			t.Errorf("the lost lease has the error %v", err)
		}

		// A waiter is served too when a replica takes over that has all the data.
		again := holder.start("x")
		holder.await(fencelock.LeaseWaiting, 1)
		set.Failover()
		l.note("another replica was promoted, on request")
		other.await(fencelock.SessionResumed, 2)
		wantHeld(t, other, next)
		unlock(t, next)
		if last := again.wait(t, ttl*11/10+slack); last.Token() <= next.Token() {
			t.Errorf("token %v after %v", last.Token(), next.Token())
		}
	})
}

// wantHonest checks that a store without grace says what it does not promise.
func wantHonest(t *testing.T, g fencelock.Guarantees, s driver.Store) {
	t.Helper()
	if g.SurvivesCrash || g.Grace || !strings.Contains(g.String(), "only the token distinguishes them") {
		t.Errorf("the guarantees claim too much: %s", g)
	}
	_, err := fencelock.New(s, &fencelock.Options{Require: fencelock.Correctness})
	if err == nil || !strings.Contains(err.Error(), "Grace: true") {
		t.Errorf("Require: Correctness says %v", err)
	}
}
