// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestUnlockOnAClusterPublishesTwice: by a plain and by a sharded channel in one script, because Java
// listens to one of them, by its version and its settings.
func TestUnlockOnAClusterPublishesTwice(t *testing.T) {
	t.Parallel()
	for _, flavor := range redistest.Flavors {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			flavor.Need(t)
			cluster := flavor.StartCluster(t, redistest.Never)
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
			t.Cleanup(func() { _ = client.Close() })
			const channel = "redisson_lock__channel:{x}"
			plain, sharded := client.Subscribe(t.Context(), channel), client.SSubscribe(t.Context(), channel)
			for _, sub := range []*redis.PubSub{plain, sharded} {
				defer sub.Close()
				_, err := sub.Receive(t.Context()) // it is confirmed
				must.OK(t, err)
			}
			l, err := clusterClient(t, cluster).Mutex("x").Lock(t.Context())
			must.OK(t, err)
			must.OK(t, l.Unlock(t.Context()))
			for _, sub := range []*redis.PubSub{plain, sharded} {
				m, err := sub.ReceiveMessage(t.Context())
				must.OK(t, err)
				if m.Payload != "0" {
					t.Errorf("the message is %q", m.Payload)
				}
			}
		})
	}
}
