// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// TestRestIsAnnounced: a claim that began to wait for a push while its session was found to
// rest must not wait on when the store stops listening for the session.
func TestRestIsAnnounced(t *testing.T) {
	ss := &session{sid: "s"}
	h := &listener{members: map[string]*member{"s": {ss: ss, asked: true, paused: true, since: 1}}, change: make(chan struct{})}
	since, changed := h.since(ss)
	if since == 0 {
		t.Fatal("the session is not listened for")
	}
	h.mu.Lock()
	paused, _ := h.dueLocked()
	h.mu.Unlock()
	if len(paused) != 1 {
		t.Fatalf("%d sessions are paused, want 1", len(paused))
	}
	select {
	case <-changed:
	default:
		t.Error("the waiter was not notified that its session is not listened for")
	}
}

// TestEndedSessionDoesNotComeBack: a wait that asks to listen after its session has left the
// listener does not make the store listen for the session again.
func TestEndedSessionDoesNotComeBack(t *testing.T) {
	ss := &session{sid: "s", store: &Store{waker: pollWaker{}}}
	ss.notices.init(nil)
	h := &listener{members: map[string]*member{}, change: make(chan struct{}), ctx: t.Context(), done: make(chan struct{})}
	h.listen(ss)
	if len(h.members) != 1 {
		t.Fatal("the session is not a member")
	}
	_ = ss.over(driver.ErrGone)
	h.leave(ss)
	if h.listen(ss); len(h.members) != 0 {
		t.Error("the session is a member again after it was over")
	}
}
