// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// TestMemberCutOffFromItsPeers: clients reach all three members, and one of these reaches no other. No call waits for it until
// its time is over.
func TestMemberCutOffFromItsPeers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster, cut := etcdtest.Divided(t)
	cut(ctx, false)
	for i := range 6 {
		bounded, cancel := context.WithTimeout(ctx, 2*time.Second) // as a client with a TTL of 6 s has
		store := storeOf(t, cluster.Connect(t))
		ses, _, err := store.Open(bounded, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 6 * time.Second})
		if err == nil {
			_, err = ses.Attempt(bounded, claim(1, fmt.Sprint("lock ", i)))
		}
		if err == nil {
			_, err = ses.KeepAlive(bounded)
		}
		if err == nil {
			err = ses.Close(bounded)
		}
		cancel()
		if err != nil {
			t.Errorf("session %d: %v", i, err)
		}
	}
}
