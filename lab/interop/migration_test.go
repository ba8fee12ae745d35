// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/fencelock/fencelock/store/etcdstore" // the children open stores by their URLs
	_ "github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	_ "github.com/fencelock/fencelock/store/redisstore"
	_ "github.com/fencelock/fencelock/store/zkstore"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fleet"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// workers is how many threads or goroutines of a process compete.
const workers = 2

// move is a way of a fleet from the locks of another library to those of fencelock.
type move struct {
	title string
	// begin starts the servers. native is nil if the library is one for Go.
	begin func(t *testing.T, names []string) (from, to string, native fleet.Starter)
}

// moves are the ways. The first is short, and for CI.
var moves = []move{
	{"redsync", func(t *testing.T, _ []string) (from, to string, _ fleet.Starter) {
		addr := redisServer(t).Addr
		return "setnx://" + addr, "redis://" + addr, nil
	}},
	{"etcd concurrency", func(t *testing.T, _ []string) (from, to string, _ fleet.Starter) {
		addr := servers.Test(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1) }).Members[0].Addr
		return "etcd-concurrency://" + addr + "?prefix=" + etcdPrefix, "etcd://" + addr, nil
	}},
	{"Redisson", func(t *testing.T, names []string) (from, to string, _ fleet.Starter) {
		addr := redisServer(t).Addr
		return "redisson://" + addr, "redis://" + addr, javaWorks("lock", "", names, func() *process {
			return start(t, peerOptions{Version: newest, Servers: []string{addr}, Watchdog: watchdog})
		})
	}},
	{"Curator", func(t *testing.T, names []string) (from, to string, _ fleet.Starter) {
		addrs, native := curatorWorks(t, names)
		return "curator://" + addrs, "zk://" + addrs + "/fencelock", native
	}},
	{"Curator to Redis", func(t *testing.T, names []string) (from, to string, _ fleet.Starter) {
		addrs, native := curatorWorks(t, names)
		return "curator://" + addrs, "redis://" + redisServer(t).Addr, native
	}},
}

func curatorWorks(t *testing.T, names []string) (addrs string, _ fleet.Starter) {
	e := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(1) })
	return strings.Join(e.Addrs(), ","), javaWorks("mutex", "/", names, func() *process {
		return startCurator(t, curatorNewest, e.Addrs())
	})
}

// javaWorks returns how to start a process of Java, which calls a lock of fencelock by its name with a prefix.
func javaWorks(kind, prefix string, names []string, begin func() *process) fleet.Starter {
	return func(r *fleet.Record) (stop func()) {
		p := &peer{begin(), ""}
		var stopping atomic.Bool
		var actors sync.WaitGroup
		for i := range workers {
			actors.Go(func() {
				for !stopping.Load() {
					name := names[rand.IntN(len(names))]
					from, until, err := await(p.t, "CYCLE", p.Ask(fmt.Sprint(i), "CYCLE", kind, prefix+name, rand.IntN(3))).held()
					if err != nil {
						r.Failed(err.Error())
						return
					}
					r.Hold(name, from, until)
				}
			})
		}
		return func() {
			stopping.Store(true)
			actors.Wait()
			p.Kill() // it holds nothing
		}
	}
}

// openNative is a process with a library for Go that is not fencelock.
func openNative(t fleet.Task) (fleet.Locker, error) {
	scheme, rest, _ := strings.Cut(t.From, "://")
	addr, _, _ := strings.Cut(rest, "?")
	switch scheme {
	case "setnx":
		return withRedsync(redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: addr})))), nil
	case "etcd-concurrency":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
		return withConcurrency(client), err
	}
	return nil, fmt.Errorf("no library for Go has the locks of %s", t.From)
}

func withRedsync(rs *redsync.Redsync) fleet.Locker {
	return func(ctx context.Context, name string, do func(context.Context)) error {
		m := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1_000_000), redsync.WithRetryDelay(10*time.Millisecond)) // until ctx ends
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		held, cancel := context.WithDeadline(context.WithoutCancel(ctx), m.Until())
		defer cancel()
		do(held)
		_, err := m.UnlockContext(context.WithoutCancel(ctx))
		return err
	}
}

// etcdPrefix is before the names of locks of package concurrency.
const etcdPrefix = "/locks/"

// withConcurrency has a session for each hold: two mutexes on one session do not exclude each other.
func withConcurrency(client *clientv3.Client) fleet.Locker {
	return func(ctx context.Context, name string, do func(context.Context)) error {
		session, err := concurrency.NewSession(client)
		if err != nil {
			return err
		}
		defer session.Close()
		m := concurrency.NewMutex(session, etcdPrefix+name)
		if err := m.Lock(ctx); err != nil {
			return err
		}
		held, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		go func() {
			select {
			case <-session.Done():
				cancel()
			case <-held.Done():
			}
		}()
		do(held)
		return m.Unlock(context.WithoutCancel(ctx))
	}
}

// moved is what came of fleets that moved.
type moved struct{ fleets, holds, overlaps, failures int }

// TestFleetsMove: processes are replaced one after the other while all of them compete: the other library, its locks through
// fencelock, both locks, fencelock's own, that with grace, both, and the other library again. No two hold a lock at the same time, and no
// acquisition fails.
func TestFleetsMove(t *testing.T) {
	t.Parallel()
	var sum moved
	for i, m := range moves {
		t.Run(m.title, func(t *testing.T) {
			if i > 0 {
				byHand(t)
			}
			sum.add(m.play(t))
		})
	}
	if sum.fleets > 0 {
		least := 1
		if *all {
			least = len(moves)
		}
		figure.Print("migration-fleets", sum.fleets, figure.AtLeast(float64(least)))
		figure.Print("migration-holds", sum.holds, figure.AtLeast(1))
		figure.Print("migration-overlaps", sum.overlaps, figure.Exactly(0))
		figure.Print("migration-failed-acquisitions", sum.failures, figure.Exactly(0))
	}
}

func (o *moved) add(more moved) {
	o.fleets += more.fleets
	o.holds += more.holds
	o.overlaps += more.overlaps
	o.failures += more.failures
}

func (m move) play(t *testing.T) moved {
	names := []string{"locks/a", "locks/b"}
	from, to, native := m.begin(t, names)
	f := fleet.Start(t, *processes, fleet.Task{Phase: fleet.Native, From: from, To: to, Names: names, Workers: workers}, native)
	for range *rounds {
		f.Move(fleet.Old)
		f.Move(fleet.Both)
		f.Move(fleet.New)
		if strings.HasPrefix(to, "redis://") {
			f.Move(fleet.Grace) // which stays on for the phases behind it
		}
		f.Move(fleet.Both)
		f.Move(fleet.Native)
	}
	holds, failures := f.Stop()
	found := fleet.Overlaps(holds)
	by := map[string]int{}
	for _, h := range holds {
		phase, _, _ := strings.Cut(h.Who, "-")
		by[phase]++
	}
	t.Logf("%d processes, %d rounds, %d overlaps, %d failures, holds by phase %v", *processes, *rounds, len(found), len(failures), by)
	for _, pair := range found[:min(len(found), 10)] {
		t.Errorf("overlap: %+v and %+v", pair[0], pair[1])
	}
	for _, text := range failures[:min(len(failures), 10)] {
		t.Error(text)
	}
	return moved{1, len(holds), len(found), len(failures)}
}

// TestFleetThatSkipsAPhaseOverlaps: the judge of a fleet is judged, too. Processes of the other library and of phase new do not
// exclude each other.
func TestFleetThatSkipsAPhaseOverlaps(t *testing.T) {
	t.Parallel()
	names := []string{"a"}
	from, to, native := moves[0].begin(t, names)
	f := fleet.Start(t, 2, fleet.Task{Phase: fleet.Native, From: from, To: to, Names: names, Workers: workers}, native)
	f.Replace(0, fleet.New)
	for range 20 {
		if holds, _ := f.Held(); len(fleet.Overlaps(holds)) > 0 {
			return
		}
		f.Replace(0, fleet.New) // some more holds of both
	}
	t.Error("no overlap was found of processes that do not exclude each other")
}
