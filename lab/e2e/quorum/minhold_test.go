// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
)

// TestVotesThatLostAreFreedOnRedis: three of five servers have another holder of their own. A lock with MinHold gets two votes, and
// loses. The two servers keep nothing for the MinHold.
func TestVotesThatLostAreFreedOnRedis(t *testing.T) {
	q := newQuorumRig(t, redisstore.Options{})
	for _, node := range q.nodes[2:] {
		other := node.open(t)
		session, _, err := other.Open(t.Context(), driver.OpenRequest{Shard: other.Shard("job"), ID: driver.NewSessionID(), TTL: 30 * time.Second})
		must.OK(t, err)
		_, err = session.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "job", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		must.OK(t, err)
	}
	c := q.process(t, nil)
	if _, err := c.Mutex("job", fencelock.MinHold(time.Hour)).TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Fatalf("got %v, want busy: three of five are taken", err)
	}
	for i, node := range q.nodes[:2] {
		store, end := node.open(t), time.Now().Add(10*time.Second)
		for {
			st, err := store.Inspect(t.Context(), "job")
			must.OK(t, err)
			if len(st.Holders) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Errorf("server %d keeps %v", i, st.Holders)
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}
