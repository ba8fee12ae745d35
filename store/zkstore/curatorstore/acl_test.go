// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// make creates a persistent node that all clients may use as far as perms goes.
func (o *other) make(path string, perms int32) {
	o.t.Helper()
	_, err := o.Create(path, nil, zk.FlagPersistent, zk.WorldACL(perms))
	must.OK(o.t, err)
}

// TestParentsOfOthersAreUsed: a user that may not create nodes beside an existing parent can lock below
// that parent.
func TestParentsOfOthersAreUsed(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	o.make("/denied", zk.PermAll)
	o.make("/denied/locks", zk.PermAll)
	o.make("/denied/sessions", zk.PermAll)
	_, err := o.SetACL("/denied", zk.WorldACL(zk.PermRead), -1)
	must.OK(t, err)
	locks := client(t, e.Addrs(), curatorstore.Options{Root: "/denied/locks", Sessions: "/denied/sessions"}, 20*time.Second)
	l := lock(t, locks, "orders/42")
	if names := o.children("/denied/locks/orders/42"); len(names) != 1 {
		t.Errorf("the children of the lock are %v", names)
	}
	must.OK(t, l.Unlock(t.Context()))
}

// TestRevocationThatIsDeniedIsLeftOut: a waiter with Revoke is queued behind a holder whose node it may
// not write to.
func TestRevocationThatIsDeniedIsLeftOut(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	node := o.claim("/mute/x", "lock-", []byte{})
	_, err := o.SetACL(node, zk.WorldACL(zk.PermRead), -1)
	must.OK(t, err)
	o.isUntouched(node, open(t, e.Addrs(), curatorstore.Options{Root: "/mute", Revoke: true}))
}

// TestLatchIsNotRevoked: the data of a LeaderLatch is the id of the participant, and empty by default.
// It stays as it is, with Revoke, too.
func TestLatchIsNotRevoked(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	node := o.claim("/latch/x", "latch-", []byte{})
	o.isUntouched(node, open(t, e.Addrs(), curatorstore.Options{Root: "/latch", Recipe: curatorstore.Latch, Revoke: true}))
}

// isUntouched queues a claim for the lock x and checks that the holder's node has no data.
func (o *other) isUntouched(node string, store *curatorstore.Store) {
	o.t.Helper()
	out, err := session(o.t, store).Attempt(o.t.Context(), queued("x"))
	if err != nil || out.State != driver.Queued {
		o.t.Errorf("the attempt returned %v, %v; want it queued", out.State, err)
	}
	data, _, err := o.Get(node)
	must.OK(o.t, err)
	if len(data) > 0 {
		o.t.Errorf("%q was written to the node of the holder", data)
	}
}
