// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// Sixteen processes hand one lock on while the connections that listen for pushes are cut off
// again and again. A push that is lost costs a poll, which comes within a TTL and
// a tenth of it (K19). To that the test adds half of slack, 5 s, for a slow machine: a
// waiter that is missed waits for a minute and fails anyway.
func TestLostMessages(t *testing.T) {
	paired(t, lostMessages)
}

func lostMessages(t *testing.T, flavor redistest.Flavor, lib library) {
	const clients, rounds, ttl = 16, 8, 6 * time.Second
	server := flavor.Start(t)
	stop := cutListeners(t, server)
	defer stop()
	baton := &baton{}
	var all sync.WaitGroup
	for i := range clients {
		c, err := fencelock.New(lib.open(t, login{Addr: server.Addr}, nil), &fencelock.Options{TTL: ttl, Owner: fmt.Sprint("client ", i)})
		must.OK(t, err)
		defer c.Close(context.Background())
		all.Go(func() {
			for range rounds {
				if err := baton.take(t.Context(), c.Mutex("x")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d handoffs, the longest took %v, %d longer than 100 ms; %d cuts",
		baton.count, baton.longest.Round(time.Millisecond), baton.slow, stop())
	if poll := ttl * 11 / 10; baton.longest > poll+slack/2 {
		t.Errorf("a waiter was left alone for %v, longer than until it polls (%v), and more than %v longer", baton.longest, poll, slack/2)
	}
	if baton.count != clients*rounds {
		t.Errorf("%d handoffs, want %d", baton.count, clients*rounds)
	}
}

// baton is what the holders pass on; only the holder touches it.
type baton struct {
	token   fencelock.Token
	left    time.Time // when the last holder began to unlock
	longest time.Duration
	slow    int
	count   int
}

// take locks, checks the token and the time since the last unlock, and unlocks.
func (b *baton) take(ctx context.Context, m *fencelock.Mutex) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if l.Token() <= b.token {
		return fmt.Errorf("token %v after %v", l.Token(), b.token)
	}
	b.token = l.Token()
	b.count++
	if gap := time.Since(b.left); !b.left.IsZero() {
		b.longest = max(b.longest, gap)
		if gap > 100*time.Millisecond {
			b.slow++
		}
	}
	b.left = time.Now()
	if err := l.Unlock(ctx); err != nil && !errors.Is(err, fencelock.ErrUnavailable) {
		return err
	}
	return nil // or it is repeated in the background
}

// cutListeners closes every connection that listens for pushes, again and again.
// The returned function stops it and returns how often.
func cutListeners(t *testing.T, server *redistest.Server) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	var cuts int
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			n, err := client.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
			if err == nil {
				cuts += int(n)
			}
			<-tick.C
		}
	}()
	return func() int {
		cancel()
		<-done
		return cuts
	}
}
