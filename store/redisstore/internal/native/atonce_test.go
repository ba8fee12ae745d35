// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestManyAtOnce: many goroutines of one session lock, wait and free a few locks, and
// some give up in the middle of a call. No lock has two holders, tokens rise, the
// store shows the holder, and in the end it shows nothing.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			store := lib.open(t, login{Addr: redistest.Start(t).Addr}, nil)
			s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard(""), ID: driver.NewSessionID(), TTL: time.Minute})
			must.OK(t, err)
			c := &crowd{t: t, store: store, s: s}
			var all sync.WaitGroup
			for i := range 32 {
				all.Go(func() {
					for range 40 {
						c.turn(rand.New(rand.NewPCG(uint64(i), c.seq.Load())))
					}
				})
			}
			all.Wait()
			t.Logf("%d claims, %d granted, %d given up in a call", c.seq.Load(), c.granted.Load(), c.gaveUp.Load())
			if c.granted.Load() == 0 || c.gaveUp.Load() == 0 {
				t.Error("that showed nothing")
			}
			for i := range c.locks {
				st, err := store.Inspect(t.Context(), crowded(i))
				if err != nil || len(st.Holders) > 0 || st.Waiting > 0 {
					t.Errorf("%s is left with %+v, %v", crowded(i), st, err)
				}
			}
		})
	}
}

// crowd is what the goroutines share.
type crowd struct {
	t                    *testing.T
	store                driver.Store
	s                    driver.Session
	seq, granted, gaveUp atomic.Uint64
	locks                [6]struct {
		held  atomic.Bool
		token atomic.Int64
	}
}

func crowded(i int) string { return fmt.Sprint("crowded ", i) }

// turn is one claim, from the attempt to the withdrawal.
func (c *crowd) turn(r *rand.Rand) {
	i := r.IntN(len(c.locks))
	claim := &driver.Claim{Seq: c.seq.Add(1), Name: crowded(i), Queue: r.IntN(2) == 0, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	if r.IntN(2) == 0 {
		claim.Terms.Record.Reason = fmt.Sprint("claim ", claim.Seq)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	if r.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(c.t.Context(), time.Duration(r.IntN(1000))*time.Microsecond)
	}
	defer cancel()
	end, _ := ctx.Deadline() // a connection may see it before ctx says so
	out, err := c.s.Attempt(ctx, claim)
	if err == nil && out.State == driver.Queued {
		out, err = c.s.Await(ctx, claim)
	}
	gone := driver.Withdrawal{Seq: claim.Seq, Name: claim.Name, Tombstone: err != nil}
	switch {
	case err != nil && time.Until(end) > 0:
		c.t.Errorf("claim %d: %v", claim.Seq, err)
	case err != nil:
		c.gaveUp.Add(1)
	case out.State == driver.Granted:
		c.granted.Add(1)
		c.hold(i, claim, out.Token)
	}
	found, err := c.s.Withdraw(c.t.Context(), gone)
	if err != nil || out.State == driver.Granted && found != driver.WasGranted {
		c.t.Errorf("withdraw %d, which was %v: %v, %v", claim.Seq, out.State, found, err)
	}
}

// hold is what happens under the lock.
func (c *crowd) hold(i int, claim *driver.Claim, token driver.Token) {
	lock := &c.locks[i]
	if !lock.held.CompareAndSwap(false, true) {
		c.t.Errorf("%s has two holders", claim.Name)
	}
	if last := lock.token.Swap(int64(token)); last >= int64(token) {
		c.t.Errorf("%s has token %v after %v", claim.Name, token, driver.Token(last))
	}
	st, err := c.store.Inspect(c.t.Context(), claim.Name)
	if err != nil || len(st.Holders) != 1 || st.Holders[0].Token != token || st.Holders[0].Claim.Seq != claim.Seq ||
		st.Holders[0].Record.Reason != claim.Terms.Record.Reason {
		c.t.Errorf("%s is held by claim %d with token %v, the store shows %+v, %v", claim.Name, claim.Seq, token, st.Holders, err)
	}
	lock.held.Store(false)
}
