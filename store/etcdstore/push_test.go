// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// TestPushOvertakesTheAnswer: the holder releases after the claim is queued and before
// the answer that reports it arrives. The waiter must not wait for a push that has
// already arrived.
func TestPushOvertakesTheAnswer(t *testing.T) {
	se := newSession(inSpace("ns"), driver.NewSessionID())
	target := se.target("x", 7)
	if se.touch(target, true) {
		t.Fatal("a claim that was never sent is known")
	}
	p := push{Grants: []wake{{Seq: 7}}}
	se.pushed(&mvccpb.KeyValue{Key: []byte(se.s.keys.Wake(se.ID)), Value: p.encode(), ModRevision: 12})
	se.note(target, 11, 11)
	out, err := se.Await(t.Context(), &driver.Claim{Seq: 7, Name: "x"})
	if err != nil || out.State != driver.Granted || out.Token != lock.Token(12, 0) {
		t.Errorf("got %v with token %v, %v; want granted with %v", out.State, out.Token, err, lock.Token(12, 0))
	}
}

// TestForeignPush: a push that this library did not write is not believed and does no harm.
func TestForeignPush(t *testing.T) {
	se := newSession(inSpace("ns"), driver.NewSessionID())
	target := se.target("x", 7)
	se.touch(target, true)
	w := se.note(target, 11, 11)
	se.pushed(&mvccpb.KeyValue{Value: []byte("hello"), ModRevision: 12})
	if _, ok := w.notified(); ok {
		t.Error("a text that is no push granted a lock")
	}
	foreign := push{Grants: []wake{{Seq: 7, Next: []*lock.Entry{{Key: "hello"}}}}}
	se.pushed(&mvccpb.KeyValue{Value: foreign.encode(), ModRevision: 13})
	if w.push == nil || w.push.Next != nil {
		t.Errorf("got %+v, want a grant without the key that is none of a lock", w.push)
	}
}

func TestLeaseOfASession(t *testing.T) {
	for range 1000 {
		if n := lease.Number(driver.NewSessionID()); n <= 0 {
			t.Fatalf("lease %d", n)
		}
	}
	if lease.Number(driver.SessionID{}) == 0 {
		t.Error("lease 0 lets etcd choose")
	}
}

func TestSecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{1: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90} {
		if got := lease.Seconds(d); got != want {
			t.Errorf("%v is %d s, want %d", d, got, want)
		}
	}
}

// inSpace is a store of a namespace without a server.
func inSpace(namespace string) *Store {
	keys := lock.NewSpace(namespace)
	return &Store{cluster: &lease.Cluster{Keys: keys}, keys: keys}
}

// TestReopenedSessionEndsItsWatch: opening a session again makes another value. The watch of
// the one before ends, and does not begin again.
func TestReopenedSessionEndsItsWatch(t *testing.T) {
	s := inSpace("ns")
	id := driver.NewSessionID()
	before := newSession(s, id)
	watching, cancel := context.WithCancel(t.Context())
	before.pushes = &pushes{failed: make(chan struct{}), cancel: cancel}
	newSession(s, id).replace(nil)
	newSession(s, driver.NewSessionID()).replace(before)
	newSession(inSpace("ns"), id).replace(before)
	if watching.Err() != nil {
		t.Fatal("the watch ended with another session")
	}
	newSession(s, id).replace(before)
	if watching.Err() == nil {
		t.Error("the watch of the earlier value stays")
	}
	if _, err := before.listen(t.Context()); !errors.Is(err, errWatch) {
		t.Errorf("the earlier value watches again: %v", err)
	}
}
