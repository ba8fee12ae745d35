// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// proclaim writes a value over the key of a session for a lock, or creates it, as an election does.
func proclaim(t *testing.T, cluster *etcdtest.Cluster, name string, id driver.SessionID) (key string) {
	t.Helper()
	on := lease.Number(id)
	key = fmt.Sprintf("%s%s/%x", prefix, name, on)
	_, err := cluster.Connect(t).Put(t.Context(), key, "host-1:8080", clientv3.WithLease(clientv3.LeaseID(on)))
	must.OK(t, err)
	return key
}

// TestKeyWithAnotherValueIsNotOverwritten: the claim would have the create revision of that key, and not that of its token.
func TestKeyWithAnotherValueIsNotOverwritten(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	client, id := cluster.Connect(t), driver.NewSessionID()
	ses := open(t, storeOf(t, client), id)
	key := proclaim(t, cluster, "a", id)
	attempt(t, ses, claim(1, "a"), driver.Queued)
	resp, err := client.Get(t.Context(), key)
	must.OK(t, err)
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "host-1:8080" {
		t.Fatalf("the key has %v", resp.Kvs)
	}
	_, err = client.Delete(t.Context(), key)
	must.OK(t, err)
	out := attempt(t, ses, claim(1, "a"), driver.Granted)
	created(t, client, "a", out.Token)
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
}

// created checks that a lock has one key, with the create revision of a token.
func created(t *testing.T, client *clientv3.Client, name string, token driver.Token) {
	t.Helper()
	resp, err := client.Get(t.Context(), prefix+name+"/", clientv3.WithPrefix())
	must.OK(t, err)
	if len(resp.Kvs) != 1 || lock.Token(resp.Kvs[0].CreateRevision, 0) != token {
		t.Errorf("token %v of a lock with the keys %v", token, resp.Kvs)
	}
}

// TestClaimWithAnotherValueKeepsItsPosition: another program writes over the value of a waiter, which has one key all the time.
func TestClaimWithAnotherValueKeepsItsPosition(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	client, id := cluster.Connect(t), driver.NewSessionID()
	store := storeOf(t, client)
	holder, ses := open(t, store, driver.NewSessionID()), open(t, store, id)
	attempt(t, holder, claim(1, "a"), driver.Granted)
	attempt(t, ses, claim(1, "a"), driver.Queued)
	proclaim(t, cluster, "a", id)
	attempt(t, ses, claim(1, "a"), driver.Queued)
	withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
	out := attempt(t, ses, claim(1, "a"), driver.Granted)
	created(t, client, "a", out.Token)
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)

	attempt(t, holder, claim(2, "a"), driver.Granted)
	attempt(t, ses, claim(2, "a"), driver.Queued)
	proclaim(t, cluster, "a", id)
	withdraw(t, ses, driver.Withdrawal{Seq: 2, Name: "a"}, driver.WasQueued)
	if all := keys(t, cluster, "a"); len(all) != 1 {
		t.Errorf("the waiter has left, and the lock has the keys %v", all)
	}
}

// TestOverwrittenKeyOfAnEarlierHandle: another program wrote over the values of keys before the session was opened again. A grant is
// reclaimed, because its token shows which key it has; a key that no claim uses is dropped, because it would block its lock.
func TestOverwrittenKeyOfAnEarlierHandle(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	client, id := cluster.Connect(t), driver.NewSessionID()
	store := storeOf(t, client)
	first, other := open(t, store, id), open(t, store, driver.NewSessionID())
	var held []driver.Held
	for i, name := range []string{"kept", "dropped"} {
		c := claim(uint64(i+1), name)
		held = append(held, driver.Held{Claim: *c, Token: attempt(t, first, c, driver.Granted).Token})
	}
	attempt(t, other, claim(1, "waited"), driver.Granted)
	attempt(t, first, claim(3, "waited"), driver.Queued)
	for _, name := range []string{"kept", "dropped", "waited"} {
		proclaim(t, cluster, name, id)
	}
	again := open(t, store, id)
	attempt(t, again, claim(3, "waited"), driver.Queued)
	attempt(t, again, claim(4, "later"), driver.Granted)
	proclaim(t, cluster, "later", id)
	kept, err := again.Reclaim(t.Context(), held[:1], true)
	if err != nil || len(kept) != 1 || !kept[0] {
		t.Errorf("Reclaim: %v, %v", kept, err)
	}
	for name, want := range map[string]int{"kept": 1, "dropped": 0, "waited": 2, "later": 1} {
		if all := keys(t, cluster, name); len(all) != want {
			t.Errorf("%s has the keys %v, want %d", name, all, want)
		}
	}
	if renewal, err := again.KeepAlive(t.Context()); err != nil || len(renewal.Broken) > 0 {
		t.Errorf("KeepAlive: %+v, %v", renewal, err)
	}
	created(t, client, "kept", held[0].Token)
	withdraw(t, again, driver.Withdrawal{Seq: 1, Name: "kept"}, driver.WasGranted)
	withdraw(t, again, driver.Withdrawal{Seq: 4, Name: "later"}, driver.WasGranted)
	withdraw(t, other, driver.Withdrawal{Seq: 1, Name: "waited"}, driver.WasGranted)
	attempt(t, again, claim(3, "waited"), driver.Granted)
	attempt(t, again, claim(5, "dropped"), driver.Granted)
}
