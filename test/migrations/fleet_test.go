// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrations

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/fencelock/fencelock/test/internal/fleet"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	processes = flag.Int("migrations.processes", 3, "how many processes a fleet has")
	rounds    = flag.Int("migrations.rounds", 1, "how often a fleet moves to the new lock and back")
)

func TestMain(m *testing.M) {
	fleet.Child(map[string]fleet.Opener{"redsync": openRedsync})
	flag.Parse()
	os.Exit(m.Run())
}

// openRedsync is a process of a fleet that moves from redsync to fencelock.
func openRedsync(t fleet.Task) (fleet.Locker, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: t.Addr, ContextTimeoutEnabled: true})
	if t.Phase == fleet.Old {
		rs := redsync.New(goredis.NewPool(client))
		return func(ctx context.Context, name string, do func(context.Context)) error {
			m := rs.NewMutex(name, redsync.WithExpiry(8*time.Second))
			if err := lockRedsync(ctx, m); err != nil {
				return err
			}
			held, cancel := context.WithDeadline(context.WithoutCancel(ctx), m.Until())
			defer cancel()
			do(held)
			_, err := m.UnlockContext(context.WithoutCancel(ctx))
			return err
		}, func() { _ = client.Close() }, nil
	}
	old, err := setnxstore.New(client, nil) // the keys that redsync takes
	if err != nil {
		return nil, nil, err
	}
	next, err := redisstore.New(client, nil)
	if err != nil {
		return nil, nil, err
	}
	store, err := t.Phase.Stores(old, next)
	if err != nil {
		return nil, nil, err
	}
	locks, err := fencelock.New(store, nil)
	if err != nil {
		return nil, nil, err
	}
	lock, closing := fleet.Of(locks, func() { _ = client.Close() })
	return lock, closing, nil
}

// TestFleetMovesFromRedsync: processes are replaced one after the other, to fencelock and back, under load.
func TestFleetMovesFromRedsync(t *testing.T) {
	t.Parallel()
	addr, _ := onRedis(t)
	f := fleet.Start(t, *processes, fleet.Task{Kind: "redsync", Phase: fleet.Old, Addr: addr, Names: []string{"a", "b"}, Workers: 2})
	for range *rounds {
		for _, to := range []fleet.Phase{fleet.Both, fleet.New, fleet.Both, fleet.Old} {
			f.Move(to)
		}
	}
	holds, failures := f.Stop()
	found := fleet.Overlaps(holds)
	fmt.Printf("figure migration-overlaps %d =0\nfigure migration-failed-acquisitions %d =0\n", len(found), len(failures))
	t.Logf("%d holds in %d processes, %d rounds, %d overlaps, %d failures", len(holds), *processes, *rounds, len(found), len(failures))
	for _, pair := range found[:min(len(found), 10)] {
		t.Errorf("overlap: %+v and %+v", pair[0], pair[1])
	}
	for _, text := range failures[:min(len(failures), 10)] {
		t.Error(text)
	}
}

// TestFleetThatSkipsAPhaseOverlaps: the judge of a fleet is judged, too. Processes in phase old and in phase new
// do not exclude each other.
func TestFleetThatSkipsAPhaseOverlaps(t *testing.T) {
	t.Parallel()
	addr, _ := onRedis(t)
	f := fleet.Start(t, 2, fleet.Task{Kind: "redsync", Phase: fleet.Old, Addr: addr, Names: []string{"a"}, Workers: 2})
	f.Replace(0, fleet.New)
	for range 20 {
		if holds, _ := f.Held(); len(fleet.Overlaps(holds)) > 0 {
			return
		}
		f.Replace(0, fleet.New) // some more holds of both
	}
	t.Error("no overlap was found of processes that do not exclude each other")
}
