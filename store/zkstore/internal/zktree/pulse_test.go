// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestPulseIsNeverTooYoung plays heartbeats through a follower that is pinged twice a
// tick, give or take. Whenever the follower is lost right after it has answered, the
// leader must not count from an earlier time than the pulse reported.
func TestPulseIsNeverTooYoung(t *testing.T) {
	const tick = time.Second
	rng := rand.New(rand.NewPCG(7, 1))
	upto := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	for range 2000 {
		begun := time.Now()
		p := pulse{certain: begun}
		now, ping := begun, begun.Add(upto(tick/2))
		leader, follower := begun, begun // what each has heard of last
		pause := 1 + upto(3*tick)
		for range 20 {
			now = now.Add(pause/2 + upto(pause))
			sent, reached := now, now.Add(upto(tick/4))
			for ; ping.Before(reached); ping = ping.Add(tick/4 + upto(tick/2)) {
				leader = follower
			}
			follower = reached
			now = reached.Add(upto(tick / 4))
			early := p.heard(beat{sent: sent, answered: now}, tick)
			if from := sent.Add(-early); leader.Before(from) {
				t.Fatalf("the pulse has the leader count from %v after the start, and it does from %v", from.Sub(begun), leader.Sub(begun))
			}
			if len(p.recent) > 10 {
				t.Fatalf("%d requests are kept", len(p.recent))
			}
		}
	}
}

// TestPulseOfARegularHeart is what the lag is made for: the leader counts from the
// heartbeat before the last, or, where they follow closely, from one a tick before.
func TestPulseOfARegularHeart(t *testing.T) {
	const tick = time.Second
	store := &Store{opts: Options{TickTime: tick}}
	for _, ttl := range []time.Duration{3 * tick / 2, 3 * tick, 6 * tick, 15 * tick} {
		begun := time.Now()
		p := pulse{certain: begun}
		for i := range 30 {
			sent := begun.Add(time.Duration(i) * ttl * 3 / 10) // as the core does, with its default margin
			if early := p.heard(beat{sent: sent, answered: sent.Add(tick / 100)}, tick); early > store.lag(ttl) {
				t.Errorf("TTL %v: heartbeat %d is reported to be %v early, the lag is %v", ttl, i, early, store.lag(ttl))
			}
		}
	}
}
