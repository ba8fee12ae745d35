// SPDX-License-Identifier: Apache-2.0

// Package measure measures what the documents claim about the cost of holding
// and of handoff, and counts what a session does. Its callers are tests, which assert
// what does not depend on the machine, and bench -figures, which asserts the rest.
package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// leaseTTL is short, so that a few renewal periods pass during a measurement.
const leaseTTL = 3 * time.Second

// rounds is how many renewals of each session are counted.
const rounds = 3

// Held is the cost of holding many leases in one client.
type Held struct {
	Leases, Shards int
	// Bytes is the heap per lease on the client: without the store's share,
	// without the name, which is the caller's.
	Bytes float64
	// Goroutines is how many more there are than before.
	Goroutines int
	// KeepAlives is how many calls each session made per renewal period.
	KeepAlives float64
	// Took is how long it all took.
	Took time.Duration
}

// String is one line for people and programs.
func (h Held) String() string {
	return fmt.Sprintf("leases %d bytes/lease %.0f goroutines %+d keepalives/period/shard %.2f",
		h.Leases, h.Bytes, h.Goroutines, h.KeepAlives)
}

// Leases holds n leases on a memory store with so many shards.
func Leases(ctx context.Context, n, shards int) (Held, error) {
	began := time.Now()
	// What counts is what is left after a collection; those in between only
	// cost time, as long as there is memory.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2 << 30))
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("lease/%d", i)
	}
	alone, err := storeAlone(ctx, names, shards)
	if err != nil {
		return Held{}, err
	}
	h := Held{Leases: n, Shards: shards}
	st := NewCounter(memstore.New(&memstore.Options{Shards: shards}))
	st.abandon = true
	leases := make([]*fencelock.Lease, n)
	goroutines, heap := runtime.NumGoroutine(), heapNow()
	c, err := fencelock.New(st, &fencelock.Options{TTL: leaseTTL})
	if err != nil {
		return Held{}, err
	}
	if err := lockAll(ctx, c, names, leases); err != nil {
		return Held{}, errors.Join(err, c.Close(ctx))
	}
	h.Bytes = (float64(heapNow()-heap) - alone) / float64(n)
	h.Goroutines = runtime.NumGoroutine() - goroutines
	h.KeepAlives, err = st.callsPerPeriod(ctx, shards)
	if !leases[0].Valid() {
		err = errors.Join(err, fmt.Errorf("measure: the leases were lost: %w", leases[0].Err()))
	}
	err = errors.Join(err, c.Close(ctx))
	runtime.KeepAlive(names)
	h.Took = time.Since(began)
	return h, err
}

// lockAll takes a lease for each name, on all processors.
func lockAll(ctx context.Context, c *fencelock.Client, names []string, leases []*fencelock.Lease) error {
	workers := min(runtime.GOMAXPROCS(0), len(names))
	failed := make(chan error, workers)
	for w := range workers {
		go func() {
			for i := w; i < len(names); i += workers {
				l, err := c.Mutex(names[i]).Lock(ctx)
				if err != nil {
					failed <- err
					return
				}
				leases[i] = l
			}
			failed <- nil
		}()
	}
	var errs []error
	for range workers {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// storeAlone returns what the store needs for the same claims.
func storeAlone(ctx context.Context, names []string, shards int) (float64, error) {
	heap := heapNow()
	st := memstore.New(&memstore.Options{Shards: shards})
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "measure"}}
	sessions := map[string]driver.Session{}
	for i, name := range names {
		id := st.Shard(name)
		if sessions[id] == nil {
			s, _, err := st.Open(ctx, driver.OpenRequest{Shard: id, ID: driver.NewSessionID(), TTL: time.Minute})
			if err != nil {
				return 0, err
			}
			sessions[id] = s
		}
		c := driver.Claim{Seq: uint64(i + 1), Name: name, Terms: terms, Queue: true}
		if out, err := sessions[id].Attempt(ctx, &c); err != nil || out.State != driver.Granted {
			return 0, fmt.Errorf("measure: attempt on %q: %v, %w", name, out.State, err)
		}
	}
	grown := float64(heapNow() - heap)
	runtime.KeepAlive(st)
	return grown, nil
}

// heapNow returns the heap in use once all garbage is gone.
func heapNow() int64 {
	runtime.GC() // returns when all is swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// perPeriod returns the calls per renewal period, where the first and the last
// call are keep-alives. The client renews after a third of the trusted time or
// up to a tenth earlier, so the number of periods is known from the time.
func perPeriod(calls []call) float64 {
	third := float64(leaseTTL-leaseTTL/100-leaseTTL/10) / 3
	spent := float64(calls[len(calls)-1].at.Sub(calls[0].at))
	return float64(len(calls)-1) / math.Round(spent/(third*0.95))
}
