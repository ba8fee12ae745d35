// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// inBucketOf returns another name in the bucket of a name.
func inBucketOf(name string) string {
	bucket := func(name string) byte {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		return byte(h.Sum32())
	}
	for i := 0; ; i++ {
		if other := fmt.Sprint("n", i); bucket(other) == bucket(name) {
			return other
		}
	}
}

// counting is a process whose requests are counted at the server.
type counting struct {
	t      *testing.T
	server *servers.EnsembleServer
	driver.Session
}

func newCounting(t *testing.T, e *servers.Ensemble) *counting {
	store, err := zkstore.New(e.Addrs(), &zkstore.Options{TickTime: servers.TickTime, MaxTTL: time.Minute})
	must.OK(t, err)
	t.Cleanup(func() { store.Close() })
	ses, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	return &counting{t, e.Servers[0], ses}
}

// cost is what something costs, in requests.
func (p *counting) cost(what string, least, most int, do func() error) {
	p.t.Helper()
	before := p.server.Received()
	if err := do(); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	if got := p.server.Received() - before; got < least || got > most {
		p.t.Errorf("%s: %d requests, want %d to %d", what, got, least, most)
	}
}

func (p *counting) attempt(cl *driver.Claim, want driver.State) func() error {
	return func() error { return is(want)(p.Attempt(p.t.Context(), cl)) }
}

// await waits for a grant.
func (p *counting) await(cl *driver.Claim) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
		defer cancel()
		return is(driver.Granted)(p.Await(ctx, cl))
	}
}

func is(want driver.State) func(driver.Outcome, error) error {
	return func(out driver.Outcome, err error) error {
		if err == nil && out.State != want {
			err = fmt.Errorf("it is %v, want %v", out.State, want)
		}
		return err
	}
}

func (p *counting) release(seq uint64) func() error {
	return func() error {
		was, err := p.Withdraw(p.t.Context(), driver.Withdrawal{Seq: seq, Name: "x"})
		if err == nil && was != driver.WasGranted {
			err = fmt.Errorf("it was %v", was)
		}
		return err
	}
}

// TestRequestsOfALock counts what the server receives for what docs/zookeeper.md names.
func TestRequestsOfALock(t *testing.T) {
	e := start(t, 1)
	claim := func(seq uint64, name string, queue bool) *driver.Claim {
		return &driver.Claim{Seq: seq, Name: name, Queue: queue, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	}
	holder, first, second, other := newCounting(t, e), newCounting(t, e), newCounting(t, e), newCounting(t, e)
	if err := holder.attempt(claim(100, inBucketOf("x"), true), driver.Granted)(); err != nil { // makes the bucket
		t.Fatal(err)
	}
	holder.cost("the first lock of a name", 3, 3, holder.attempt(claim(1, "x", true), driver.Granted))
	holder.cost("a release", 1, 1, holder.release(1))
	holder.cost("a lock", 1, 1, holder.attempt(claim(2, "x", true), driver.Granted))
	other.cost("TryLock of a held lock", 3, 3, other.attempt(claim(1, "x", false), driver.Busy))
	queued := claim(1, "x", true)
	first.cost("the first in the queue: a transaction, the queue, the holder with its watch", 3, 3, first.attempt(queued, driver.Queued))
	second.cost("the second: a transaction, the queue, the holder, the watch", 4, 4, second.attempt(queued, driver.Queued))
	holder.cost("a release with waiters", 1, 1, holder.release(2))
	// A watch that has fired before Await is read again, which is not so while a waiter waits.
	first.cost("the grant of the first", 1, 2, first.await(queued))
	first.cost("its release", 1, 1, first.release(1))
	second.cost("the grant of the second", 1, 2, second.await(queued))
}
