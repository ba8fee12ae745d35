// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/redisstore"
)

// TestQuorumTokensUnderFire: processes with bad connections compete while servers
// are killed and come back empty, one at a time. Tokens are unique and rise.
func TestQuorumTokensUnderFire(t *testing.T) {
	const grace = 2 * time.Second // and the TTL: a lost lease does no harm here
	kills, grants := 6, 50
	if *quorumFigures {
		kills, grants = 15, 150
	}
	q := newQuorumRig(t, redisstore.Options{Grace: true, MaxTTL: grace})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	seen := &grantsSeen{}
	var wg sync.WaitGroup
	for p := range 4 {
		c := q.processOf(t, &fencelock.Options{TTL: grace}, func(i int, s driver.Store) driver.Store { return lossy(t, s, uint64(p*10+i)) })
		wg.Go(func() { seen.compete(ctx, c) })
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range kills {
		q.rested(ctx, t)
		q.nodes[r.IntN(len(q.nodes))].restart(t)
	}
	for seen.count.Load() < int64(grants) && ctx.Err() == nil {
		<-time.After(100 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	violations := seen.violations()
	fmt.Printf("quorum: %d grants on five servers, %d kills\n", len(seen.all), kills)
	figure.Print("quorum-server-token-violations", violations, figure.Exactly(0))
	if violations > 0 || len(seen.all) < grants {
		t.Errorf("%d of %d grants have a token out of order; want none of at least %d", violations, len(seen.all), grants)
	}
}

// rested waits until no server is in grace: one more that loses its data is then one at a
// time.
func (q *quorumRig) rested(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, r := range q.nodes {
		s := r.open(t)
		for {
			st, err := s.Inspect(ctx, "x")
			if err == nil && st.Grace == 0 {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s still rests: %v, %v", r.server.Addr, st.Grace, err)
			case <-time.After(max(st.Grace, 20*time.Millisecond)):
			}
		}
	}
}

// grantSeen is a grant as its process saw it.
type grantSeen struct {
	asked, got time.Time
	token      fencelock.Token
}

// grantsSeen are the grants that processes saw.
type grantsSeen struct {
	count atomic.Int64

	mu  sync.Mutex
	all []grantSeen
}

// compete takes the lock and gives it back until ctx ends.
func (g *grantsSeen) compete(ctx context.Context, c *quorumProcess) {
	for ctx.Err() == nil {
		asked := time.Now()
		l, err := c.Mutex("x").Lock(ctx)
		if err != nil {
			continue
		}
		g.mu.Lock()
		g.all = append(g.all, grantSeen{asked, time.Now(), l.Token()})
		g.mu.Unlock()
		g.count.Add(1)
		_ = l.Unlock(context.Background())
	}
}

// violations counts the pairs with one token, or in the wrong order.
func (g *grantsSeen) violations() (n int) {
	for i, a := range g.all {
		for _, b := range g.all[:i] {
			if a.token == b.token || a.got.Before(b.asked) && a.token > b.token || b.got.Before(a.asked) && b.token > a.token {
				n++
			}
		}
	}
	return n
}

// lossy loses replies and sends again.
func lossy(t testing.TB, s driver.Store, seed uint64) driver.Store {
	f, err := faultstore.Wrap(s, faultstore.Any(
		faultstore.Prob(0.02, seed, faultstore.LoseReply()),
		faultstore.Prob(0.05, seed+1, faultstore.Delay(5*time.Millisecond, 5*time.Millisecond)),
		faultstore.On(faultstore.Attempt, faultstore.Prob(0.05, seed+2, faultstore.Dup())),
	), nil)
	must.OK(t, err)
	t.Cleanup(f.Wait)
	return f
}
