// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/redisstore/rueidisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// newRueidis makes a store on a rueidis client that ends with the test.
func newRueidis(t *testing.T, o rueidis.ClientOption, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	o.DisableCache = true
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s, err := rueidisstore.New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSentinelClients: rueidis, and a URL, find the master, as users that may do
// no more than they need to. rueidis asks the master for its role besides.
func TestSentinelClients(t *testing.T) {
	t.Parallel()
	sentinels := redistest.Redis.StartSentinels(t, redistest.Soon)
	if err := sentinels.Master().Do(append(words("ACL SETUSER "+aclLine(t)), ">"+secret, "+role")...).Err(); err != nil {
		t.Fatal(err)
	}
	s := newRueidis(t, rueidis.ClientOption{
		InitAddress: sentinels.Addrs, Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName},
		Username: "locks", Password: secret,
	}, nil)
	u := open(t, fmt.Sprintf("redis-sentinel://locks:%s@%s/%s", secret, strings.Join(sentinels.Addrs, ","), redistest.MasterName), nil)
	use(t, s, u)
	for name, store := range map[string]*redisstore.Store{"rueidis": s, "url": u} {
		findings, err := store.Check(t.Context())
		if want := []string{"replicas-without-grace"}; err != nil || !slices.Equal(codes(findings), want) {
			t.Errorf("%s: check: got %v, %v, want %v", name, findings, err, want)
		}
	}
}

// TestClusterClients: rueidis, and a URL, use a cluster with sharded channels, as
// users that may do no more than they need to.
func TestClusterClients(t *testing.T) {
	t.Parallel()
	cluster := redistest.Redis.StartCluster(t, redistest.Soon)
	admin := cluster.Client()
	plain, err := redisstore.New(admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule := append(words("ACL SETUSER "+plain.ACL("locks")), ">"+secret)
	var mu sync.Mutex
	var addrs []string
	if err := admin.ForEachShard(t.Context(), func(ctx context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addrs = append(addrs, c.Options().Addr)
		return c.Do(ctx, rule...).Err()
	}); err != nil {
		t.Fatal(err)
	}
	// Long enough that the sessions outlive the grace of a new namespace.
	opts := &redisstore.Options{Grace: true, MaxTTL: 2 * time.Second, Buckets: 4}
	s := newRueidis(t, rueidis.ClientOption{InitAddress: addrs[:1], Username: "locks", Password: secret}, opts)
	u := open(t, fmt.Sprintf("redis-cluster://locks:%s@%s", secret, strings.Join(addrs, ",")), opts)
	use(t, s, u)
	for name, store := range map[string]*redisstore.Store{"rueidis": s, "url": u} {
		if findings, err := store.Check(t.Context()); err != nil || len(findings) > 0 {
			t.Errorf("%s: check: got %v, %v", name, findings, err)
		}
	}
	spread := map[string]bool{}
	for i := range 64 {
		spread[driver.Store(s).Shard(fmt.Sprint(i))] = true
	}
	if len(spread) != opts.Buckets {
		t.Errorf("names are on %d shards, want %d", len(spread), opts.Buckets)
	}
}
