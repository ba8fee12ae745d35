// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
)

// beside locks and unlocks with new processes, and with one from before, while a member is no use. A majority is well, so
// none may wait long; the leases that are held stay.
func beside(t *testing.T, ctx context.Context, endpoints []string, happens func()) {
	t.Helper()
	open := func() *fencelock.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
		must.OK(t, err)
		t.Cleanup(func() { _ = client.Close() })
		store, err := etcdstore.New(client, nil)
		must.OK(t, err)
		c, err := fencelock.New(store, &fencelock.Options{TTL: 6 * time.Second})
		must.OK(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = c.Close(ctx)
		})
		return c
	}
	old := open()
	held, err := old.Mutex("held").Lock(ctx)
	must.OK(t, err)
	happens()
	began := time.Now()
	for i := range 12 {
		c := old
		if i%2 == 0 {
			c = open()
		}
		bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
		from := time.Now()
		l, err := c.Mutex(fmt.Sprint("lock ", i)).Lock(bounded)
		if took := time.Since(from); err != nil || took > 5*time.Second {
			t.Errorf("lock %d: %v after %v", i, err, took)
		}
		if err == nil {
			if err := l.Unlock(bounded); err != nil {
				t.Errorf("unlock %d: %v", i, err)
			}
		}
		cancel()
		if t.Failed() {
			return
		}
	}
	t.Logf("12 locks in %v", time.Since(began))
	if err := held.Err(); err != nil {
		t.Errorf("the lease from before: %v", err)
	}
}

// TestMemberCutOffFromItsPeers: clients reach all three members, and one of these reaches no other. It knows no leader then, and
// would keep a call until the call's time is over.
func TestMemberCutOffFromItsPeers(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprint("leads ", leads), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cluster, cut := etcdtest.Divided(t)
			beside(t, ctx, cluster.Addrs(), func() { cut(ctx, leads) })
		})
	}
}

// TestMemberThatDoesNotAnswer: the connection to a member stays, and no answer comes, as from one whose disk hangs.
func TestMemberThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster := etcdtest.Start(t, 3)
	proxy, err := servers.NewProxy(cluster.Members[2].Addr)
	must.OK(t, err)
	t.Cleanup(proxy.Close)
	var requests atomic.Int64
	proxy.Filter(func(_ int, toServer bool, _ []byte) bool {
		if toServer {
			requests.Add(1)
		}
		return true
	})
	stores := func() *etcdstore.Store {
		client, err := clientv3.New(clientv3.Config{Endpoints: append(cluster.Addrs()[:2], proxy.Addr), Logger: zap.NewNop()})
		must.OK(t, err)
		t.Cleanup(func() { _ = client.Close() })
		for used := 0; used < 3; { // it uses all members in turn
			before := requests.Load()
			for range 3 {
				if _, err := client.Get(ctx, "x"); err != nil {
					t.Fatal(err)
				}
			}
			if requests.Load() > before {
				used++
			}
		}
		store, err := etcdstore.New(client, nil)
		must.OK(t, err)
		return store
	}
	var all []*etcdstore.Store
	for range 6 {
		all = append(all, stores())
	}
	proxy.Set(servers.State{DropReplies: true})
	for i, store := range all {
		bounded, cancel := context.WithTimeout(ctx, 2*time.Second) // as a client with a TTL of 6 s has
		_, _, err := store.Open(bounded, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 6 * time.Second})
		cancel()
		if err != nil {
			t.Errorf("session %d: %v", i, err)
		}
	}
}

// TestLearnerAmongTheEndpoints: a member is replaced in the recommended way, by a learner at its address. It serves no locks
// until it is promoted, and refuses each call at once.
func TestLearnerAmongTheEndpoints(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster := etcdtest.Start(t, 3)
	beside(t, ctx, cluster.Addrs(), func() {
		gone := cluster.Members[2]
		admin, err := clientv3.New(clientv3.Config{Endpoints: cluster.Addrs()[:2], Logger: zap.NewNop()})
		must.OK(t, err)
		defer admin.Close()
		list, err := admin.MemberList(ctx)
		must.OK(t, err)
		gone.Kill()
		for _, m := range list.Members {
			if m.ClientURLs[0] == "http://"+gone.Addr {
				err := whenHealthy(ctx, func(ctx context.Context) error { _, err := admin.MemberRemove(ctx, m.ID); return err })
				if err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) { // a try that was not answered may have done it
					t.Fatal(err)
				}
			}
		}
		err = cluster.Rejoin(gone, func(name, peer string) (string, error) { return asLearner(ctx, admin, name, peer) })
		must.OK(t, err)
	})
}

// asLearner adds a learner.
func asLearner(ctx context.Context, admin *clientv3.Client, name, peer string) (string, error) {
	err := whenHealthy(ctx, func(ctx context.Context) error { _, err := admin.MemberAddAsLearner(ctx, []string{peer}); return err })
	if err != nil && !errors.Is(err, rpctypes.ErrPeerURLExist) { // a try that was not answered may have done it
		return "", err
	}
	list, err := admin.MemberList(ctx)
	if err != nil {
		return "", err
	}
	var all []string
	for _, m := range list.Members {
		if m.Name == "" {
			m.Name = name
		}
		all = append(all, m.Name+"="+m.PeerURLs[0])
	}
	return strings.Join(all, ","), nil
}

// whenHealthy changes the members. The cluster refuses that until the others have been connected for some seconds, and does not
// answer, or not before its own timeout, if its leader has just changed.
func whenHealthy(ctx context.Context, change func(ctx context.Context) error) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := change(bounded)
		late := bounded.Err() != nil
		cancel()
		var refused rpctypes.EtcdError
		if err == nil || ctx.Err() != nil || !late && !(errors.As(err, &refused) && refused.Code() == codes.Unavailable) {
			return err
		}
		<-time.After(200 * time.Millisecond)
	}
}
