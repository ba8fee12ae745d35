// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Sessions is the case of so many sessions.
func Sessions(n int) string { return fmt.Sprintf("%d sessions", n) }

// The candidates of KeepAlives: a keep-alive, and the least a server can be asked to
// write.
const (
	KeepAlive = "keep-alive"
	PlainSet  = "SET"
)

// sharedClients is how many clients the sessions share: enough that the server reads one command
// from a connection, as from a process, and few enough for one machine.
const sharedClients = 64

// KeepAlives lets each of so many sessions, which hold a lock each, be kept alive once, and
// as many SET be sent through the same clients: what each costs the server. They are sent
// as fast as they are answered: a server that has nothing else to do spends more on waking
// up than on a command.
func (e *Env) KeepAlives(ctx context.Context, sessions int) (Cells, error) {
	here, err := e.fresh(ctx)
	if err != nil {
		return nil, err
	}
	defer here.Server.Stop()
	all, closeAll, err := here.heldSessions(ctx, sessions)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	plain, closePlain, err := openClients(here.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer closePlain()
	each := func(name string, call func(ctx context.Context, i int) error) run {
		return run{Sessions(sessions), name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
			usec, err := e.charged(ctx, func() error {
				return worker.Parallel(sharedClients, sessions, func(i int) error { return call(ctx, i) })
			})
			return Sample{ServerCPU: usec / float64(sessions)}, err
		}}
	}
	return here.interleave(ctx, []run{
		each(KeepAlive, func(ctx context.Context, i int) error {
			_, err := all[i].KeepAlive(ctx)
			return err
		}),
		each(PlainSet, func(ctx context.Context, i int) error {
			c := plain[i%sharedClients]
			return c.Do(ctx, c.B().Set().Key(fmt.Sprint("set/", i)).Value("0123456789abcdef").Build()).Error()
		}),
	})
}

const (
	// renewers is how many goroutines keep sessions alive, whatever the number of sessions: the server
	// must have the same load in each case.
	renewers = 10
	// kept is how often sessions are kept alive in one sample.
	kept = 20_000
)

// GrowSessions keeps sessions alive on several servers, each with another number of sessions that hold a lock each, in
// turn, as fast as they are answered: what one keep-alive costs the server.
func (e *Env) GrowSessions(ctx context.Context, sizes []int) (Cells, error) {
	var runs []run
	for _, n := range sizes {
		here, err := e.fresh(ctx)
		if err != nil {
			return nil, err
		}
		defer here.Server.Stop()
		all, closeAll, err := here.heldSessions(ctx, n)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		keep := func(times int) error {
			return worker.Parallel(renewers, times, func(i int) error {
				_, err := all[i%n].KeepAlive(ctx)
				return err
			})
		}
		runs = append(runs, run{Sessions(n), KeepAlive, func(ctx context.Context, _ *Env, _ int) (Sample, error) {
			usec, err := here.charged(ctx, func() error { return keep(kept) })
			if err != nil {
				return nil, err
			}
			return Sample{ServerCPU: usec / kept}, keep(n) // or some end before their next sample
		}})
	}
	return e.interleave(ctx, runs)
}

// heldSessions opens sessions that take one lock each.
func (e *Env) heldSessions(ctx context.Context, n int) (sessions []driver.Session, closeClients func(), err error) {
	e.Progress("%s: opening them", Sessions(n))
	lockers, err := e.openMany(ctx, candidate.FencelockRueidis, sharedClients)
	if err != nil {
		return nil, nil, err
	}
	sessions, err = openSessions(ctx, lockers, n, func(i int) *driver.Claim {
		return &driver.Claim{Seq: 1, Name: fmt.Sprint("kept/", i), Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "web-17:4242"}}}
	})
	if err != nil {
		closeAll(lockers)
		return nil, nil, err
	}
	return sessions, func() { closeAll(lockers) }, nil
}

// longTTL is how long sessions live that are opened before a measurement and are to be
// there after it: the MaxTTL of redisstore.
const longTTL = time.Minute

// openers is how many sessions are opened at the same time.
const openers = 64

// openSessions opens so many, in turn on the stores of lockers of ours, and lets each have its claim,
// if there is one.
func openSessions(ctx context.Context, lockers []candidate.Locker, n int, claim func(i int) *driver.Claim) ([]driver.Session, error) {
	sessions := make([]driver.Session, n)
	err := worker.Parallel(openers, n, func(i int) error {
		store, err := candidate.StoreOf(lockers[i%len(lockers)])
		if err != nil {
			return err
		}
		ttl := longTTL
		if most := store.Caps().MaxTTL; most > 0 {
			ttl = min(ttl, most)
		}
		var wants *driver.Claim
		name := fmt.Sprint("unit/", i)
		if claim != nil {
			wants = claim(i)
			name = wants.Name
		}
		sessions[i], _, err = store.Open(ctx, driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: ttl})
		if err != nil || wants == nil {
			return err
		}
		out, err := sessions[i].Attempt(ctx, wants)
		if err == nil && out.State != driver.Granted {
			err = fmt.Errorf("%s: %v", name, out.State)
		}
		return err
	})
	return sessions, err
}

// Readers is the case of one more reader beside so many.
func Readers(n int) string { return fmt.Sprintf("beside %d readers", n) }

// GrowReaders lets one client take and release a lock that so many sessions share: what
// one more reader costs the server.
func (e *Env) GrowReaders(ctx context.Context, sizes []int) (Cells, error) {
	here, err := e.fresh(ctx)
	if err != nil {
		return nil, err
	}
	defer here.Server.Stop()
	sharing, err := here.openMany(ctx, candidate.FencelockRueidis, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll(sharing)
	c := candidate.FencelockReaders
	lockers, err := here.openMany(ctx, c, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll(lockers)
	shared := func(n int) string { return fmt.Sprint("shared/", n) }
	var runs []run
	for _, n := range sizes {
		e.Progress("%s: sharing the lock", Readers(n))
		// A worker that locks its own name lets what it has begun end.
		task := worker.Task{Name: shared(n), Own: true, Goroutines: 1, Uncanceled: true}
		_, err := openSessions(ctx, sharing, n, func(int) *driver.Claim {
			return &driver.Claim{Seq: 1, Name: shared(n) + "/0", Terms: &driver.Terms{Mode: driver.Shared, Weight: 1, Record: &driver.Record{Owner: "web-17:4242"}}}
		})
		if err != nil {
			return nil, err
		}
		runs = append(runs, run{Readers(n), c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
			return e.fleet(ctx, c, lockers, task)
		}})
	}
	cells, err := here.interleave(ctx, runs)
	if err != nil {
		return nil, err
	}
	for _, n := range sizes { // fewer readers would have looked cheaper
		if err := holders(ctx, sharing[0], shared(n)+"/0", n); err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// holders is an error if the store does not see so many holders of a lock.
func holders(ctx context.Context, l candidate.Locker, name string, n int) error {
	store, err := candidate.StoreOf(l)
	if err != nil {
		return err
	}
	st, err := store.Inspect(ctx, name)
	if seen := len(st.Holders) + st.MoreHolders; err == nil && seen != n {
		err = fmt.Errorf("%q has %d holders, want %d: their sessions have ended", name, seen, n)
	}
	return err
}

// openClients opens so many clients.
func openClients(addr string) (clients []rueidis.Client, closeClients func(), err error) {
	closeClients = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for range sharedClients {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
		if err != nil {
			closeClients()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, closeClients, nil
}
