// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// TestCutOffHolderIsNotifiedFirst: a Go holder that loses the ensemble is notified before the node of
// another program becomes the first.
func TestCutOffHolderIsNotifiedFirst(t *testing.T) {
	t.Parallel()
	e := start(t, 1)
	o := join(t, e.Addrs())
	valve := &servers.Valve{}
	locks := client(t, e.Addrs(), curatorstore.Options{Dial: valve.Dial}, 3*time.Second)
	l := lock(t, locks, "x")
	node := o.only("/x")
	o.claim("/x", "lock-", nil)
	_, _, gone, err := o.GetW(node)
	must.OK(t, err)
	heal := valve.Shut()
	defer heal()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the session of a holder that was cut off did not end")
	}
	select {
	case <-l.Context().Done():
	default:
		t.Fatal("the next claim holds the lock, and the holder was not notified")
	}
	if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrLost) {
		t.Errorf("the lease ended with %v, want ErrLost", err)
	}
}

// TestRemovedContainerComesBack: the ensemble removes the node of a free lock. The next claim creates it
// again, with the first number and a higher token.
func TestRemovedContainerComesBack(t *testing.T) {
	t.Parallel()
	e := servers.Test(t, func() (*servers.Ensemble, error) {
		return servers.ZooKeeperWith(1, "-Dznode.container.checkIntervalMs=200")
	})
	o := join(t, e.Addrs())
	locks := client(t, e.Addrs(), curatorstore.Options{Root: "/deep/locks"}, 20*time.Second)
	var last fencelock.Token
	for range 2 {
		l := lock(t, locks, "x")
		if names := o.children("/deep/locks/x"); len(names) != 1 || !nameOfAClaim.MatchString(names[0]) {
			t.Errorf("the claims are %v, want one with the number 0", names)
		}
		if l.Token() <= last {
			t.Errorf("token %v after %v", l.Token(), last)
		}
		last = l.Token()
		must.OK(t, l.Unlock(t.Context()))
		must.OK(t, servers.Await("the containers are removed", func() bool {
			_, _, err := o.Get("/deep")
			return errors.Is(err, zk.ErrNoNode)
		}))
	}
}
