// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/redis/go-redis/v9"
)

// TestClusterMovesTheLock: the master of the deployment is that of the lock, and a migration moves
// the lock while it is held.
func TestClusterMovesTheLock(t *testing.T) {
	const ttl = 20 * time.Second
	r, err := cluster.Start(ttl, fault.Wants{})
	if err != nil && strings.Contains(err.Error(), "install") {
		t.Skip(err)
	}
	must.OK(t, err)
	defer r.Stop()
	locks, err := lock.Open(lock.Spec{Kind: cluster.Lock, Addrs: r.Addrs, Who: "c1", TTL: ttl, MaxTTL: ttl})
	must.OK(t, err)
	defer locks.Close(t.Context())
	var held lock.Held
	until(t, "all nodes know the cluster", func() bool {
		held, err = locks.Lock(t.Context(), lock.LockName)
		return err == nil
	})
	keeps := func() int {
		t.Helper()
		m, err := r.Master()
		must.OK(t, err)
		client := redis.NewClient(&redis.Options{Addr: r.Reach[m]})
		defer client.Close()
		if keys, err := client.Keys(t.Context(), "*:l:"+lock.LockName).Result(); err != nil || len(keys) != 1 {
			t.Errorf("node %d has the lock as %q, %v; want one key", m, keys, err)
		}
		return m
	}
	old := keeps()
	must.OK(t, r.Migrate(t.Context()))
	until(t, "another master has the lock", func() bool {
		m, err := r.Master()
		return err == nil && m != old
	})
	keeps()
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	held, err = locks.Lock(t.Context(), lock.LockName)
	must.OK(t, err)
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
