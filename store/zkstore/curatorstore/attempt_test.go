// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// session opens a session of a store, without the core that repeats and cleans up.
func session(t testing.TB, store *curatorstore.Store) driver.Session {
	t.Helper()
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 20 * time.Second})
	must.OK(t, err)
	return s
}

// queued returns a claim that waits.
func queued(name string) *driver.Claim {
	return &driver.Claim{Seq: 1, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
}

// TestRefusedClaimLeavesNoNode: a claim that is refused because of a strange child is removed before the
// attempt returns: other programs would wait for it until the core repeats the removal.
func TestRefusedClaimLeavesNoNode(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	o.claim("/strange/x", "other-", nil)
	_, err := o.Create("/strange/x/0abc", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	must.OK(t, err)
	before := o.children("/strange/x")
	s := session(t, open(t, e.Addrs(), curatorstore.Options{Root: "/strange"}))
	if out, err := s.Attempt(t.Context(), queued("x")); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("the attempt returned %v, %v; want ErrRefused", out.State, err)
	}
	if after := o.children("/strange/x"); len(after) != len(before) {
		t.Errorf("the children were %v and are %v", before, after)
	}
}

// TestRepeatedClaimLeavesOneNode: the reply to the creation of a claim that waits is lost. The claim is
// created again without a read before, and the second node goes before the attempt returns.
func TestRepeatedClaimLeavesOneNode(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	proxy := through(t, e.Addrs()[0])
	s := session(t, open(t, []string{proxy.Addr}, curatorstore.Options{Root: "/repeated"}))
	o.claim("/repeated/x", "lock-", nil)
	lost := proxy.LoseReplyTo("-lock-")
	lost.Start()
	out, err := s.Attempt(t.Context(), queued("x"))
	if err != nil || out.State != driver.Queued || !lost.Done() {
		t.Errorf("the attempt returned %v, %v with a lost reply: %t; want it queued", out.State, err, lost.Done())
	}
	if names := o.children("/repeated/x"); len(names) != 2 {
		t.Errorf("beside the holder there must be one claim: %v", names)
	}
}

// TestLostReplyLeavesOneNode: the reply to a creation is lost. The claim is found again, and no second
// node of it stays in the queue.
func TestLostReplyLeavesOneNode(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	proxy := through(t, e.Addrs()[0])
	locks := client(t, []string{proxy.Addr}, curatorstore.Options{}, 20*time.Second)
	must.OK(t, lock(t, locks, "other").Unlock(t.Context())) // there is a session
	lost := proxy.LoseReplyTo("-lock-")
	lost.Start()
	l := lock(t, locks, "lost")
	if !lost.Done() {
		t.Fatal("no reply was lost")
	}
	names := o.children("/lost")
	if len(names) != 1 {
		t.Errorf("after a lost reply there are %v", names)
	}
	must.OK(t, l.Unlock(t.Context()))
	if names := o.children("/lost"); len(names) > 0 {
		t.Errorf("after the unlock there are %v", names)
	}
}

// TestWithdrawalWithoutAServerDoesNotHideADeletion: no server can be reached when a lock is withdrawn, so
// nothing is sent. Another program deletes the node then, and the repeated withdrawal reports it.
func TestWithdrawalWithoutAServerDoesNotHideADeletion(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	proxy := through(t, e.Addrs()[0])
	s := session(t, open(t, []string{proxy.Addr}, curatorstore.Options{Root: "/unreached"}))
	out, err := s.Attempt(t.Context(), queued("x"))
	if err != nil || out.State != driver.Granted {
		t.Fatal(out, err)
	}
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	must.OK(t, unused.Close())
	proxy.Retarget(unused.Addr().String())
	must.OK(t, servers.Await("that no server can be reached", func() bool {
		_, err := s.KeepAlive(t.Context())
		return errors.Is(err, driver.ErrUnavailable)
	}))
	w := driver.Withdrawal{Seq: 1, Name: "x"}
	if found, err := s.Withdraw(t.Context(), w); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("without a server the withdrawal returned %v, %v", found, err)
	}
	must.OK(t, o.Delete(o.only("/unreached/x"), -1))
	proxy.Retarget(e.Addrs()[0])
	var found driver.Removed
	must.OK(t, servers.Await("that the withdrawal is repeated", func() bool {
		found, err = s.Withdraw(t.Context(), w)
		return !errors.Is(err, driver.ErrUnavailable)
	}))
	if err != nil || found != driver.WasBroken {
		t.Errorf("the repeated withdrawal returned %v, %v; want WasBroken", found, err)
	}
}

// through returns a proxy of a server, for faults between the store and it.
func through(t *testing.T, addr string) *servers.Proxy {
	t.Helper()
	p, err := servers.NewProxy(addr)
	must.OK(t, err)
	t.Cleanup(p.Close)
	return p
}
