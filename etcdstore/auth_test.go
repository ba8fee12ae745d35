// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/etcdstore"
	"github.com/fencelock/fencelock/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestPermissions: a user who may use the keys of the namespace and nothing else can
// do everything with locks.
func TestPermissions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	root := cluster.Connect(t)
	steps := []func() error{
		func() error { _, err := root.RoleAdd(ctx, "locks"); return err },
		func() error {
			_, err := root.RoleGrantPermission(ctx, "locks", "orders|", clientv3.GetPrefixRangeEnd("orders|"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := root.UserAdd(ctx, "ann", "p@ss"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "ann", "locks"); return err },
		func() error { _, err := root.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := root.AuthEnable(ctx); return err },
	}
	for i, f := range steps {
		if err := f(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	addr := cluster.Members[0].Addr
	store, err := etcdstore.Open(ctx, "etcd://ann:p%40ss@"+addr+"/orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	everything(t, ctx, store)
	for url, why := range map[string]string{
		"etcd://ann:p%40ss@" + addr + "/others": "permission",
		"etcd://ann:wrong@" + addr + "/orders":  "authentication failed",
	} {
		_, err := etcdstore.Open(ctx, url, nil)
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: got %v, want an error about %s", url, err, why)
		}
	}
}

// everything locks, waits, is handed over to, lists, breaks and closes.
func everything(t *testing.T, ctx context.Context, store *etcdstore.Store) {
	t.Helper()
	var all []*fencelock.Client
	for range 2 {
		c, err := fencelock.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	held, err := all[0].Mutex("x").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := all[1].Mutex("x", fencelock.MaxHold(time.Minute)).Lock(ctx)
		got <- err
	}()
	for waiting := 0; waiting == 0; {
		st, err := store.Inspect(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		waiting = st.Waiting
	}
	if page, err := store.List(ctx, driver.ListQuery{Max: 5}); err != nil || len(page.Locks) != 1 {
		t.Errorf("list: %v, %v", page, err)
	}
	if _, err := store.Break(ctx, "x", held.Token()); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := store.SetLimit(ctx, "y", 3); err != nil {
		t.Error(err)
	}
	for _, c := range all {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
