// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// removesUnused is the setting of docs/zookeeper.md by which the ensemble removes the node of a lock that nobody had,
// with times short enough that some are removed before their first claim comes.
var removesUnused = []string{"-Dznode.container.checkIntervalMs=5", "-Dznode.container.maxNeverUsedIntervalMs=1", "-Dznode.container.maxPerMinute=1000000"}

// TestLockNodesOfDeadProcessesAreRemoved: a process that dies after it has made the node of a lock, and before it makes
// its claim there, leaves a node that has never had a child. By default ZooKeeper keeps it for good.
func TestLockNodesOfDeadProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeperWith(1, removesUnused...) })
	var conn *beforeMulti
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		plain, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		conn = &beforeMulti{Conn: plain, skip: 2} // the first looks, and the second finds no node of the lock
		return conn, err
	}
	store, err := zkstore.New(e.Addrs(), &zkstore.Options{TickTime: servers.TickTime, MaxTTL: 20 * time.Second, Dial: dial})
	must.OK(t, err)
	t.Cleanup(func() { store.Close() })
	s, err := openSession(ctx, store)
	must.OK(t, err)
	stopped, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(ended) })
	stop := func() { close(stopped); <-ended }
	conn.hook.Store(&stop)
	go func() {
		_, _ = s.Attempt(ctx, &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		t.Fatal("no third transaction was sent")
	}

	other, _, err := zk.Connect(e.Addrs(), 5*time.Second, zk.WithLogInfo(false))
	must.OK(t, err)
	t.Cleanup(other.Close)
	buckets, _, err := other.Children("/fencelock/l")
	if err != nil || len(buckets) != 1 {
		t.Fatalf("buckets %v, %v, want that of the lock", buckets, err)
	}
	for {
		left, _, changed, err := other.ChildrenW("/fencelock/l/" + buckets[0])
		must.OK(t, err)
		if len(left) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%v, which no process has used, is still there", left)
		}
	}
}

// TestLockNodesMayBeRemovedBeforeTheirFirstClaim: then the node is made again.
func TestLockNodesMayBeRemovedBeforeTheirFirstClaim(t *testing.T) {
	t.Parallel()
	e := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeperWith(1, removesUnused...) })
	s, err := openSession(t.Context(), newStore(t, e, ""))
	must.OK(t, err)
	for i := range 300 {
		claim := &driver.Claim{Seq: uint64(i) + 1, Name: fmt.Sprint("lock ", i), Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		out, err := s.Attempt(t.Context(), claim)
		if err != nil || out.State != driver.Granted {
			t.Fatalf("%s: %v, %v; want it granted", claim.Name, out.State, err)
		}
	}
}
