// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

var sentinelFailbacks = flag.Int("failbacks.sentinel", 1, "how many random sequences that three sentinels carry out")

// returns lets the sentinels promote a server while the master stands still, and the master take over again while that
// server dies: it copies nothing and does not restart.
func returns(t *testing.T, s *redistest.Sentinels, use func()) {
	a := s.Master()
	resume := a.Pause()
	b, err := s.AwaitPromoted(a.RedisServer)
	must.OK(t, err)
	redistest.WaitFor(t, "the sentinels lead to the second server", func() bool { return s.Knows(b) })
	use()
	b.Kill()
	resume()
	redistest.WaitFor(t, "the first master is the master again", func() bool {
		return a.Info("replication", "role") == "master" && s.Knows(a.RedisServer)
	})
}

// TestSentinelsLeadBackToAnOldMaster: three sentinels do by themselves what TestFailbackWithOldDataStartsAnew does by hand. In random
// moments processes lock and unlock; each must see its tokens rise, and with grace no two hold a lock.
func TestSentinelsLeadBackToAnOldMaster(t *testing.T) {
	t.Parallel()
	var falls, laps atomic.Int64
	t.Run("sequences", func(t *testing.T) {
		for i := range *sentinelFailbacks {
			t.Run(fmt.Sprint("seed ", i), func(t *testing.T) {
				t.Parallel()
				r := &random{t: t, seed: uint64(i), rand: rand.New(rand.NewPCG(uint64(i), 0)), grace: i%2 == 0, began: time.Now(), grants: map[string][]grant{}}
				r.sentinels()
				falls.Add(r.falls.Load())
				laps.Add(r.laps.Load())
				if r.falls.Load()+r.laps.Load() > 0 || r.count.Load() < 5 {
					t.Errorf("grace %t: %d falls, %d overlaps, %d grants\n%s", r.grace, r.falls.Load(), r.laps.Load(), r.count.Load(), r.log.String())
				}
			})
		}
	})
	figure.Print("token-falls-with-sentinels", falls.Load(), figure.Exactly(0))
	figure.Print("overlaps-with-sentinels", laps.Load(), figure.Exactly(0))
}

// sentinels plays one sequence. Every process is at the second master before the first one returns, so each knows it.
func (r *random) sentinels() {
	t := r.t
	ttl := 4 * time.Second
	s := redistest.Redis.StartSentinels(t, redistest.Soon)
	s.Nodes[2].Kill() // two take part, so that no third one is promoted
	r.epoch.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var actors []*actor
	for i := range 4 {
		a := &actor{r: r, name: fmt.Sprint("process ", i)}
		a.Store = libraries[i%len(libraries)].open(t, login{Sentinels: s.Addrs}, &native.Options{Grace: r.grace, MaxTTL: ttl, Accept: []string{"min-replicas"}})
		c, err := fencelock.New(a, &fencelock.Options{TTL: ttl, StoreTimeout: time.Minute})
		must.OK(t, err)
		actors = append(actors, a)
		wg.Go(func() {
			a.act(ctx, c, r.seed+uint64(i))
			bound, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.Close(bound)
		})
	}
	r.grantsOn(actors)
	returns(t, s, func() {
		r.epoch.Add(1)
		r.grantsOn(actors)
		time.Sleep(time.Duration(r.rand.IntN(2000)) * time.Millisecond) // a random moment of the load
	})
	r.epoch.Add(1)
	r.grantsOn(actors)
	cancel()
	wg.Wait()
}

// grantsOn waits until every process was granted locks that it asked for from now on.
func (r *random) grantsOn(actors []*actor) {
	r.t.Helper()
	for _, a := range actors {
		before := a.got.Load()
		redistest.WaitFor(r.t, a.name+" is granted locks", func() bool { return a.got.Load() >= before+2 })
	}
}
