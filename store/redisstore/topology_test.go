// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestSentinelClients: every library, and a URL, finds the master, as a user with only the
// permissions that are needed. rueidis also asks the master for its role.
func TestSentinelClients(t *testing.T) {
	t.Parallel()
	for _, flavor := range redistest.Flavors {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			sentinels := flavor.StartSentinels(t, redistest.Never)
			must.OK(t, sentinels.Master().Do(append(words("ACL SETUSER "+aclLine(t)), ">"+secret, "+role")...).Err())
			u := open(t, fmt.Sprintf("redis-sentinel://locks:%s@%s/%s", secret, strings.Join(sentinels.Addrs, ","), redistest.MasterName), nil)
			for _, lib := range libraries {
				s := lib.open(t, login{Sentinels: sentinels.Addrs, User: "locks", Pass: secret}, nil)
				redistest.Use(t, s, u)
				wantFindings(t, s.Store, "replicas-without-grace")
			}
			wantFindings(t, u, "replicas-without-grace")
		})
	}
}

// TestClusterClients: every library, and a URL, uses a cluster with sharded channels,
// as a user that may do no more than it needs to.
func TestClusterClients(t *testing.T) {
	t.Parallel()
	for _, flavor := range redistest.Flavors {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			cluster := flavor.StartCluster(t, redistest.Never)
			// Long enough that the sessions outlive the grace of a new namespace.
			opts := &redisstore.Options{Grace: true, MaxTTL: 6 * time.Second, Buckets: 4}
			margins := []string{"margin", "margin", "margin"} // the TTL is as long, and each of three masters has a replica
			line := append(words("ACL SETUSER "+clusterACL(t)), ">"+secret)
			for _, n := range cluster.Nodes {
				must.OK(t, n.Do(line...).Err())
			}
			u := open(t, fmt.Sprintf("redis-cluster://locks:%s@%s", secret, strings.Join(cluster.Addrs(), ",")), opts)
			for _, lib := range libraries {
				s := lib.open(t, login{Nodes: cluster.Addrs()[:1], User: "locks", Pass: secret}, opts)
				redistest.Use(t, s, u)
				wantFindings(t, s.Store, margins...)
			}
			wantFindings(t, u, margins...)
			spread := map[string]bool{}
			for i := range 64 {
				spread[u.Shard(fmt.Sprint(i))] = true
			}
			if len(spread) != opts.Buckets {
				t.Errorf("names are on %d shards, want %d", len(spread), opts.Buckets)
			}
		})
	}
}

// clusterACL is what a user of a cluster needs.
func clusterACL(t *testing.T) string {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer client.Close() // it never connected
	store, err := redisstore.New(client, nil)
	must.OK(t, err)
	return store.ACL("locks")
}

// wantFindings fails unless a check finds exactly these.
func wantFindings(t *testing.T, s Store, want ...string) {
	t.Helper()
	if findings, err := s.Check(t.Context()); err != nil || !slices.Equal(codes(findings), want) {
		t.Errorf("check: got %v, %v, want %v", findings, err, want)
	}
}
