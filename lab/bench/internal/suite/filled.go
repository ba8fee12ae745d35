// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/fill"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// filled is a server to be filled with what package fill writes.
type filled struct {
	*Env
	store driver.Store
	raw   *redis.Client
	close func()
}

// longTTL is how long sessions live that are opened before a measurement and are to be
// there after it: the MaxTTL of redisstore.
const longTTL = time.Minute

// startFilled starts a server. The caller stops it.
func (e *Env) startFilled(ctx context.Context) (*filled, error) {
	server, err := e.Start(ctx)
	if err != nil {
		return nil, err
	}
	store, closeStore, err := candidate.RueidisStore(server.Addr(), 1)
	if err != nil {
		server.Stop()
		return nil, err
	}
	here := *e
	here.Server = server
	raw := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute, DisableIdentity: true})
	return &filled{Env: &here, store: store, raw: raw, close: closeStore}, nil
}

func (f *filled) stop() {
	_ = f.raw.Close()
	f.close()
	f.Server.Stop()
}

// hold makes a process that lives hold n locks.
func (f *filled) hold(ctx context.Context, n int) (*fill.Owner, error) {
	o := fill.NewOwner(f.store, f.raw, longTTL)
	err := o.Hold(ctx, holdName, n, func(held int) { f.Progress("%s of %d", LocksHeld(held), n) })
	if err != nil {
		return nil, err
	}
	o.KeepAlive(ctx)
	return o, nil
}

// Readers is the case of one more reader beside so many.
func Readers(n int) string { return fmt.Sprintf("beside %d readers", n) }

// GrowReaders lets one client take and release a lock that so many processes share: what
// one more reader costs the server.
func (e *Env) GrowReaders(ctx context.Context, sizes []int) (Cells, error) {
	f, err := e.startFilled(ctx)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	c := candidate.FencelockReaders
	lockers, closeLockers, err := f.openOne(ctx, []*candidate.Candidate{c})
	if err != nil {
		return nil, err
	}
	defer closeLockers()
	var runs []run
	for _, n := range sizes {
		e.Progress("%s: sharing the lock", Readers(n))
		// A worker that locks its own name lets what it has begun end.
		task := worker.Task{Name: sharedName(n), Own: true, Goroutines: 1, Uncanceled: true}
		if err := fill.Share(ctx, f.store, task.Name+"/0", n, longTTL); err != nil {
			return nil, err
		}
		runs = append(runs, run{Readers(n), c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
			return e.fleet(ctx, c, lockers, task)
		}})
	}
	cells, err := f.interleave(ctx, runs)
	if err != nil {
		return nil, err
	}
	for _, n := range sizes { // fewer readers would have looked cheaper
		if err := fill.Holders(ctx, f.store, sharedName(n)+"/0", n); err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// sharedName begins the name of the lock that so many share.
func sharedName(readers int) string { return fmt.Sprint("shared/", readers) }

// manyClients is how many lock and unlock while names are held.
const manyClients = 16

// manyKeys is from when a server takes longer to grow its table of keys than to warm up.
const manyKeys = 1_000_000

// growFor bounds awaitGrown. A server grows a table of ten million keys in about six seconds.
const growFor = 15 * time.Second

// awaitGrown lets the server finish growing its table of keys. While it does, each command moves some
// keys: that is the price of the keys that were written, and not of those that are held.
func (f *filled) awaitGrown(ctx context.Context) error {
	table := func() (int64, error) {
		stats, err := f.raw.Do(ctx, "MEMORY", "STATS").Result()
		if err != nil {
			return 0, err
		}
		all, _ := stats.(map[any]any)
		keys, _ := all["db.0"].(map[any]any)
		size, ok := keys["overhead.hashtable.main"].(int64)
		if !ok {
			return 0, errors.New("the server does not report how large its table of keys is")
		}
		return size, nil
	}
	before, err := table()
	if err != nil {
		return err
	}
	if err := f.raw.ConfigSet(ctx, "hz", "500").Err(); err != nil { // a millisecond for it in each cycle
		return err
	}
	for end := time.Now().Add(growFor); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		now, err := table()
		if err != nil {
			return err
		}
		if now < before*9/10 { // the smaller table is gone
			break
		}
	}
	return f.raw.ConfigSet(ctx, "hz", "10").Err()
}

// GrowHeld lets clients lock and unlock on several servers, each with another number of locks
// held, in turn: whether a lock costs the server more among many.
func (e *Env) GrowHeld(ctx context.Context, candidates []*candidate.Candidate, sizes []int) (Cells, error) {
	var runs []run
	for _, n := range sizes {
		f, err := e.startFilled(ctx)
		if err != nil {
			return nil, err
		}
		defer f.stop()
		e.Progress("%s: writing them", LocksHeld(n))
		o, err := f.hold(ctx, n)
		if err != nil {
			return nil, err
		}
		defer o.Close()
		if n >= manyKeys {
			if err := f.awaitGrown(ctx); err != nil {
				return nil, err
			}
		}
		for _, c := range candidates {
			lockers, err := f.openMany(ctx, c, manyClients)
			if err != nil {
				return nil, err
			}
			defer closeAll(lockers)
			runs = append(runs, run{Names(n), c.Name, func(ctx context.Context, e *Env, repetition int) (Sample, error) {
				here := *f.Env // the other server may be the last
				here.For, here.Repetitions = e.For, e.Repetitions
				s, err := here.fleet(ctx, c, lockers, worker.Task{
					Name: fmt.Sprintf("fresh/%s/%d", c.Name, repetition), Own: true, Fresh: true, Goroutines: 1, Uncanceled: true,
				})
				if err != nil {
					return nil, err
				}
				return s, fill.Holders(ctx, f.store, holdName+"/0", 1)
			}})
		}
	}
	return e.interleave(ctx, runs)
}
