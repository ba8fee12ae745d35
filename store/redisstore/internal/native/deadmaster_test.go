// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestSilentMasterDelaysNoOther: one of three masters does not answer any more. Locks on
// it are lost in time, and those on the others are kept alive.
func TestSilentMasterDelaysNoOther(t *testing.T) {
	paired(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		l, cluster := newTimeline(t), flavor.StartCluster(t, redistest.Never)
		opts, ttl := native.Options{Namespace: lists + "Silent" + lazy, Buckets: 3}, 6*time.Second
		store := lib.open(t, login{Nodes: cluster.Addrs()}, &opts)
		p := join(t, l, "holder", store, fencelock.Options{TTL: ttl})
		leases := map[string]*fencelock.Lease{}
		for i := 0; len(leases) < opts.Buckets; i++ {
			name := fmt.Sprint("lock ", i)
			if shard := store.Shard(name); leases[shard] == nil {
				leases[shard] = p.lock(name)
			}
		}
		_, silent := cluster.Find(opts.Namespace + ":{" + opts.Namespace + ":1.*")
		l.note("%s is stopped", silent.Addr)
		t.Cleanup(silent.Pause())
		select {
		case <-leases["1"].Context().Done():
		case <-time.After(ttl + slack):
			t.Error("the lock on the silent master is not lost")
		}
		time.Sleep(ttl)
		for shard, lease := range leases {
			if shard != "1" && !lease.Valid() {
				t.Errorf("the lock in bucket %s is lost: %v", shard, lease.Err())
			}
		}
	})
}
