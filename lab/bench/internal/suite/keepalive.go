// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/rueidis"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/fill"
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
	f, err := e.startFilled(ctx)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	all, closeAll, err := f.openSessions(ctx, sessions)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	plain, closePlain, err := openClients(f.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer closePlain()
	each := func(name string, call func(ctx context.Context, i int) error) run {
		return run{Sessions(sessions), name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
			usec, err := e.charged(ctx, func() error { return keepEach(sessions, func(i int) error { return call(ctx, i) }) })
			return Sample{ServerCPU: usec / float64(sessions)}, err
		}}
	}
	return f.interleave(ctx, []run{
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

// keepEach calls f for each of n, from one goroutine for each client.
func keepEach(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, sharedClients)
	for w := range sharedClients {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += sharedClients {
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// openSessions opens sessions through stores with their own connections; each takes one
// lock.
func (f *filled) openSessions(ctx context.Context, n int) (sessions []driver.Session, closeStores func(), err error) {
	f.Progress("%s: opening them", Sessions(n))
	stores := make([]driver.Store, 0, sharedClients)
	var closers []func()
	closeStores = func() {
		for _, c := range closers {
			c()
		}
	}
	for range sharedClients {
		s, closeStore, err := candidate.RueidisStore(f.Server.Addr(), 1)
		if err != nil {
			closeStores()
			return nil, nil, err
		}
		stores, closers = append(stores, s), append(closers, closeStore)
	}
	sessions = make([]driver.Session, n)
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "web-17:4242"}}
	err = fill.Parallel(n, func(i int) error {
		name := fmt.Sprint("kept/", i)
		s, _, err := stores[i%sharedClients].Open(ctx, driver.OpenRequest{Shard: stores[0].Shard(name), ID: driver.NewSessionID(), TTL: longTTL})
		if err != nil {
			return err
		}
		sessions[i] = s
		out, err := s.Attempt(ctx, &driver.Claim{Seq: 1, Name: name, Terms: terms})
		if err == nil && out.State != driver.Granted {
			err = fmt.Errorf("%s: %v", name, out.State)
		}
		return err
	})
	if err != nil {
		closeStores()
		return nil, nil, err
	}
	return sessions, closeStores, nil
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
