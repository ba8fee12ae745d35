// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// TestPermissions: a user who may use the keys of the namespace and nothing else can
// do everything with locks.
func TestPermissions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	withUsers(t, ctx, cluster)
	addr := cluster.Members[0].Addr
	store, err := etcdstore.Open(ctx, "etcd://ann:p%40ss@"+addr+"/orders", nil)
	must.OK(t, err)
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

// withUsers turns authentication on: ann, with the password p@ss, may use the keys of the
// namespace orders. It returns a client of the user root.
func withUsers(t *testing.T, ctx context.Context, cluster *etcdtest.Cluster) *clientv3.Client {
	t.Helper()
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
		err := f()
		for errors.Is(err, rpctypes.ErrTimeout) && ctx.Err() == nil {
			// A busy server has not answered in time, and may have done it.
			if err = f(); errors.Is(err, rpctypes.ErrUserAlreadyExist) || errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
				err = nil
			}
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	admin, err := clientv3.New(clientv3.Config{Endpoints: cluster.Addrs(), Username: "root", Password: "root", DialTimeout: 10 * time.Second})
	must.OK(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	return admin
}

// asAnn returns a client of ann that counts how often it logs in.
func asAnn(t *testing.T, cluster *etcdtest.Cluster) (*clientv3.Client, *atomic.Int64) {
	t.Helper()
	var logins atomic.Int64
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Authenticate") {
			logins.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Addrs(), Username: "ann", Password: "p@ss", DialTimeout: 10 * time.Second,
		Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)}})
	must.OK(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, &logins
}

// session opens a session of a store in the namespace orders.
func session(t *testing.T, ctx context.Context, client *clientv3.Client) driver.Session {
	t.Helper()
	store, err := etcdstore.New(client, &etcdstore.Options{Namespace: "orders"})
	must.OK(t, err)
	s, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
	must.OK(t, err)
	return s
}

// TestFailedOpenLeavesNoLease: a user who may only read is refused after its lease was granted. The lease does not stay until it
// ends.
func TestFailedOpenLeavesNoLease(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	root := withUsers(t, ctx, cluster)
	for _, step := range []func() error{
		func() error { _, err := root.RoleAdd(ctx, "reading"); return err },
		func() error {
			_, err := root.RoleGrantPermission(ctx, "reading", "orders|", clientv3.GetPrefixRangeEnd("orders|"), clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := root.UserAdd(ctx, "bob", "p"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "bob", "reading"); return err },
	} {
		must.OK(t, step())
	}
	store, err := etcdstore.Open(ctx, "etcd://bob:p@"+cluster.Members[0].Addr+"/orders", nil)
	must.OK(t, err)
	defer store.Close()
	if _, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second}); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a session: got %v, want permission denied", err)
	}
	if left, err := root.Leases(ctx); err != nil || len(left.Leases) != 0 {
		t.Errorf("left: %v, %v, want no lease", left, err)
	}
}

// TestKeepAlivesLogInOnce: on a cluster with users a session logs in for its first
// keep-alive, and not for each: checking a password is what costs the server most.
func TestKeepAlivesLogInOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	withUsers(t, ctx, cluster)
	client, logins := asAnn(t, cluster)
	s := session(t, ctx, client)
	var first int64
	for i := range 20 {
		bounded, end := context.WithTimeout(ctx, 20*time.Second) // each call has its own end, as the core's have
		_, err := s.KeepAlive(bounded)
		end()
		must.OK(t, err)
		if i == 0 {
			first = logins.Load()
		}
	}
	if more := logins.Load() - first; more != 0 {
		t.Errorf("20 keep-alives logged in %d times after the first", more)
	}
}

// TestSessionsShareOneLogin: the sessions of a store keep alive on one stream, so that a
// process logs in twice, to connect and to open the stream, however many sessions it has.
func TestSessionsShareOneLogin(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	withUsers(t, ctx, cluster)
	client, logins := asAnn(t, cluster)
	store, err := etcdstore.New(client, &etcdstore.Options{Namespace: "orders"})
	must.OK(t, err)
	for range 3 {
		s, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
		must.OK(t, err)
		for range 3 {
			if _, err := s.KeepAlive(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := logins.Load(); n != 2 {
		t.Errorf("three sessions logged in %d times, want 2", n)
	}
}

// TestKeepAliveOutlivesItsStream: a keep-alive whose context has ended does not spoil the
// next, nor does a server that was restarted since the last.
func TestKeepAliveOutlivesItsStream(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	client := cluster.Connect(t)
	s := session(t, ctx, client)
	keepAlive := func() {
		t.Helper()
		if _, err := s.KeepAlive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	keepAlive()
	resume := cluster.Pause()
	bounded, end := context.WithTimeout(ctx, 100*time.Millisecond)
	_, err := s.KeepAlive(bounded)
	end()
	resume()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a keep-alive of a server that stands still: %v, want the end of its context", err)
	}
	keepAlive()
	cluster.Kill()
	must.OK(t, cluster.Start())
	connected(t, ctx, client)
	keepAlive()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := s.KeepAlive(ctx); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a keep-alive after Close: %v, want ErrGone", err)
	}
}

// connected waits until a client has found its server again. Until then all its calls fail
// at once, whatever stream they are on: it pauses after a connection that was refused.
func connected(t *testing.T, ctx context.Context, client *clientv3.Client) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := client.Get(ctx, "any")
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the client does not find its server again: %v", err)
		}
	}
}

// TestKeepAliveWithoutPermission: a keep-alive that is refused because a role is being
// changed decides nothing about the session: leases go on until the deadline.
func TestKeepAliveWithoutPermission(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	root := withUsers(t, ctx, cluster)
	client, _ := asAnn(t, cluster)
	s := session(t, ctx, client)
	if _, err := root.UserRevokeRole(ctx, "ann", "locks"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.KeepAlive(ctx); err == nil || decided(err) || !strings.Contains(err.Error(), "permission") {
		t.Errorf("without permission: %v, want an error that names the permission and ends nothing", err)
	}
	if _, err := root.UserGrantRole(ctx, "ann", "locks"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.KeepAlive(ctx); err != nil {
		t.Errorf("with the permission again: %v", err)
	}
}

// everything locks, waits, is handed off to, lists, breaks and closes.
func everything(t *testing.T, ctx context.Context, store *etcdstore.Store) {
	t.Helper()
	var all []*fencelock.Client
	for range 2 {
		c, err := fencelock.New(store, nil)
		must.OK(t, err)
		all = append(all, c)
	}
	held, err := all[0].Mutex("x").Lock(ctx)
	must.OK(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := all[1].Mutex("x", fencelock.MaxHold(time.Minute)).Lock(ctx)
		got <- err
	}()
	for waiting := 0; waiting == 0; {
		st, err := store.Inspect(ctx, "x")
		must.OK(t, err)
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

// decided reports whether the core ends a session because of the error.
func decided(err error) bool {
	return errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrReset) || errors.Is(err, driver.ErrRefused)
}
