// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestDocumented runs what docs/etcd.md shows.
func TestDocumented(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	addr := etcdtest.Start(t, 1).Members[0].Addr
	a, err := withClient([]string{addr})
	must.OK(t, err)
	b, err := etcdstore.Open(ctx, "etcd://"+addr+"/orders", nil)
	must.OK(t, err)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	locks, err := fencelock.New(a, &fencelock.Options{Require: fencelock.Correctness})
	must.OK(t, err)
	l, err := locks.Mutex("x").Lock(ctx)
	must.OK(t, err)
	page, err := b.List(ctx, driver.ListQuery{Max: 10})
	if err != nil || len(page.Locks) != 1 || page.Locks[0].Holders[0].Token != l.Token() {
		t.Errorf("the store by URL sees %+v, %v; want the lock of the other", page, err)
	}
	if err := l.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if err := locks.Close(ctx); err != nil {
		t.Error(err)
	}
}

func withClient(addrs []string) (*etcdstore.Store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            addrs,
		DialKeepAliveTime:    5 * time.Second, // notices a connection that was cut without a word
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return etcdstore.New(client, &etcdstore.Options{Namespace: "orders"})
}

// TestExamples runs the examples of the package on a server.
func TestExamples(t *testing.T) {
	addr := etcdtest.Start(t, 1).Members[0].Addr
	servers.Example(t, Example, "ETCD_URL", "etcd://"+addr, "holding orders/42\n")
	servers.Example(t, ExampleNew, "ETCD_ENDPOINT", addr, "holding orders/42\n")
}
