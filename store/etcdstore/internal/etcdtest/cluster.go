// SPDX-License-Identifier: Apache-2.0

// Package etcdtest connects to the etcd servers of package servers.
package etcdtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock/internal/servers"
)

// Cluster is a number of etcd servers that form a cluster.
type Cluster struct{ *servers.EtcdCluster }

// Start starts a cluster that ends with the test. args are further arguments of the
// servers.
func Start(t testing.TB, members int, args ...string) *Cluster {
	t.Helper()
	return servers.Test(t, func() (*Cluster, error) { return Launch(members, args...) })
}

// Launch starts a cluster. The caller stops it.
func Launch(members int, args ...string) (*Cluster, error) {
	c, err := servers.Etcd(members, args...)
	if err != nil {
		return nil, err
	}
	return &Cluster{c}, nil
}

// Divided starts a cluster of three members. cut cuts its leader, or a follower, off from the other members, but not from clients,
// and returns when that member knows that it has no leader, and the others have one.
func Divided(t testing.TB) (c *Cluster, cut func(ctx context.Context, leads bool)) {
	t.Helper()
	peers := &servers.Peers{}
	t.Cleanup(peers.Close)
	c = &Cluster{}
	servers.Test(t, func() (*servers.EtcdCluster, error) {
		var err error
		if c.EtcdCluster, err = servers.NewEtcd(3, peers.Front); err != nil {
			return nil, err
		}
		for i, m := range c.Members {
			peers.Process(i, m.PID)
		}
		return c.EtcdCluster, c.EtcdCluster.Start()
	})
	return c, func(ctx context.Context, leads bool) {
		t.Helper()
		leader, err := c.Leader(ctx)
		if err != nil {
			t.Fatal(err)
		}
		at := -1
		for i, m := range c.Members {
			if (m == leader) == leads {
				at = i
			}
		}
		peers.Set(at, servers.State{DropRequests: true, DropReplies: true})
		client := c.Connect(t)
		for done := 0; done < len(c.Members); {
			done = 0
			for i, m := range c.Members {
				st, err := client.Status(ctx, m.Addr)
				if ctx.Err() != nil {
					t.Fatal(ctx.Err())
				}
				if err == nil && (st.Leader == 0) == (i == at) {
					done++
				}
			}
		}
	}
}

// Client returns a client for all members; close it.
func (c *Cluster) Client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: c.Addrs(), Logger: zap.NewNop(),
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 2 * time.Second})
}

// Connect returns a client that is closed with the test.
func (c *Cluster) Connect(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Leader returns the member that leads. It waits for one: on a busy machine there are elections.
func (c *Cluster) Leader(ctx context.Context) (*servers.EtcdMember, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for ctx.Err() == nil {
		for _, m := range c.Members {
			st, err := client.Status(ctx, m.Addr)
			if err == nil && st.Leader == st.Header.MemberId {
				return m, nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil, fmt.Errorf("etcdtest: no member reports that it leads: %w", ctx.Err())
}
