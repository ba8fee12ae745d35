// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// dial returns a client of its own for one server, as long as the test runs.
func dial(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// One server loses its memory, all of it or the last of it.
func TestLossesKeepTheLease(t *testing.T) {
	t.Parallel()
	disk := []string{"--appendonly", "yes", "--appendfsync", "always"}
	var all sync.WaitGroup // all at once, on however few processors: they mostly wait
	for name, c := range map[string]struct {
		args    []string
		prepare func(s *redistest.Server) (lose func())
	}{
		"restart with nothing": {nil, func(s *redistest.Server) func() { return s.Restart }},
		"restart with all":     {disk, func(s *redistest.Server) func() { return s.Restart }},
		"the last is missing":  {disk, (*redistest.Server).Copy},
		"FLUSHALL": {nil, func(s *redistest.Server) func() {
			return func() { s.Do("FLUSHALL") }
		}},
	} {
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				server := redistest.Start(t, c.args...)
				loss{
					client:  func() redis.UniversalClient { return dial(t, server.Addr) },
					ttl:     5 * time.Second,
					prepare: func(*timeline) func() { return c.prepare(server) },
				}.survives(t)
			})
		})
	}
	all.Wait()
}

// A server forgets scripts whenever it likes; nobody notices.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	opts := fencelock.Options{TTL: 2 * time.Second}
	a := join(t, nil, "a", dial(t, server.Addr), redisstore.Options{}, opts)
	b := join(t, nil, "b", dial(t, server.Addr), redisstore.Options{}, opts)
	held := a.lock("held")
	ctx, cancel := context.WithCancel(t.Context())
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for ctx.Err() == nil {
			server.Do("SCRIPT", "FLUSH")
		}
	})
	defer flusher.Wait()
	defer cancel()
	last := held.Token()
	for end := time.Now().Add(opts.TTL); time.Now().Before(end); {
		lease := a.lock("x")
		next := b.start("x")
		unlock(t, lease)
		second := next.wait(t, opts.TTL*11/10+slack)
		unlock(t, second)
		if lease.Token() <= last || second.Token() <= lease.Token() {
			t.Fatalf("tokens %v, %v, %v", last, lease.Token(), second.Token())
		}
		last = second.Token()
	}
	wantHeld(t, b, held)
	for _, p := range []*party{a, b} {
		for _, kind := range []fencelock.EventKind{fencelock.SessionRenewalFailed, fencelock.SessionForgotten, fencelock.ClaimSettled} {
			if n := p.count(kind); n > 0 {
				t.Errorf("%s: %v %d times", p.name, kind, n)
			}
		}
	}
}

// A replica takes over while the old master still serves those who do not know.
// The stale side never has the higher token, whatever it grants and when.
func TestSplitBrain(t *testing.T) {
	t.Parallel()
	old := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(old.Port))
	for replica.Info("replication", "master_link_status") != "up" {
		time.Sleep(10 * time.Millisecond)
	}
	opts := fencelock.Options{TTL: 2 * time.Second}
	stale := join(t, nil, "stale", dial(t, old.Addr), redisstore.Options{}, opts)
	fresh := join(t, nil, "fresh", dial(t, replica.Addr), redisstore.Options{}, opts)
	before := stale.lock("x")
	if err := replica.Do("REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	after := fresh.lock("x")
	var last fencelock.Token
	for range 100 {
		lease := stale.lock("y")
		last = lease.Token()
		unlock(t, lease)
	}
	first := fresh.lock("y")
	t.Logf("stale side: x %v, y %v; fresh side: x %v, y %v", before.Token(), last, after.Token(), first.Token())
	if after.Token() <= before.Token() || first.Token() <= last {
		t.Error("the fresh side has the lower token")
	}
}
