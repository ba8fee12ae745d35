// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
)

// FencelockCluster is fencelock on a Redis cluster.
var FencelockCluster = &Candidate{
	Name: "fencelock-cluster", Server: "cluster", Settings: "defaults: TTL 15 s, 32 buckets; no grace, which is accepted", Plain: []string{"ssubscribe"}, Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{at.Addr}, DisableCache: true, BlockingPoolSize: max(rueidis.DefaultPoolSize, 4*n),
		})
		if err != nil {
			return nil, err
		}
		store, err := rueidisstore.New(client, &rueidisstore.Options{Accept: []string{"replicas-without-grace"}})
		if err != nil {
			client.Close()
			return nil, err
		}
		return openOurs(store, n, client.Close)
	},
}
