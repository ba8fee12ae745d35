// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"sync"
	"time"
)

// listener listens for notifications on one connection, for all sessions of a store. It
// begins when a claim waits or is watched, and ends a while after the last one was: the server
// wakes every connection that listens for every notification.
//
//	LISTEN channel ──▶ pg_notify(channel, hello) on another connection ──▶ heard? live
//	                                                                  └──▶ not heard: poll; try again in minutes
//
// A pooler in transaction mode takes LISTEN, and gives the connection to another client.
// Nothing but a message that arrives proves that messages arrive. Once one has arrived on a
// connection, a LISTEN there is enough.
type listener struct {
	s      *Store
	ctx    context.Context
	cancel context.CancelFunc

	pauses

	mu sync.Mutex
	arrival
	done    chan struct{} // of the goroutine that listens; nil without one
	heard   int64         // counts how often listening for a session has begun
	members map[string]*member
	change  chan struct{}      // closed when it changes for a session whether it is listened for
	rescan  context.CancelFunc // makes the goroutine read the members again
}

// pauses are how long a store does not listen.
type pauses struct {
	retry time.Duration // after a greeting that was not heard
	idle  time.Duration // from the last claim that waited until it stops
}

// arrival is what is known of whether messages arrive.
type arrival struct {
	never  bool // listening cannot work here
	silent bool // the last greeting was not heard
	proved bool // a greeting was heard on this connection
}

// member is a session whose claims wait for notifications.
type member struct {
	ss     *session
	used   bool   // a claim has asked for it since the last check
	paused bool   // none of its claims is near the front of a queue
	gone   bool   // it has left
	asked  bool   // LISTEN was sent on this connection
	secret string // of its hello
	since  int64  // since when it is listened for, in counts of listener.heard; 0 if it is not
}

// helloWait is how long a notification to ourselves may take to arrive.
const helloWait = 2 * time.Second

// silentFor is how long a store polls after a greeting that was not heard. It may have been
// a pooler, or a server that was slow for once.
const silentFor = 5 * time.Minute

// listenIdle is after how long without a claim that waits or is watched a store stops
// listening: within two of it.
const listenIdle = 30 * time.Second

func (h *listener) init(s *Store) {
	h.s, h.members, h.change = s, map[string]*member{}, make(chan struct{})
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.never, h.retry, h.idle = !s.listens(), silentFor, listenIdle
}

// listen returns since when the session is listened for, 0 if it is not, and a channel that is
// closed when that changes. It begins to listen if necessary.
func (h *listener) listen(ss *session) (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.never || h.ctx.Err() != nil {
		return 0, nil
	}
	select {
	case <-ss.notices.ended: // a wait that has not ended yet must not bring it back
		return 0, nil
	default:
	}
	m := h.members[ss.sid]
	if m == nil || m.ss != ss {
		m = &member{ss: ss, paused: true}
		h.members[ss.sid] = m
	}
	m.used = true
	if m.paused {
		m.paused = false
		h.rescanLocked()
	}
	if h.done == nil {
		h.done = make(chan struct{})
		go h.run(h.done)
	}
	return m.since, h.change
}

// since returns what listen returns, and does not begin to listen.
func (h *listener) since(ss *session) (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.members[ss.sid]; m != nil && m.ss == ss {
		return m.since, h.change
	}
	return 0, h.change
}

// soon reports whether a LISTEN is all that is missing.
func (h *listener) proven() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proved
}

// pause stops listening for a session until it is asked for again.
func (h *listener) pause(ss *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.members[ss.sid]; m != nil && m.ss == ss && !m.paused {
		m.paused = true
		h.rescanLocked()
	}
}

func (h *listener) leave(ss *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.members[ss.sid]; m != nil && m.ss == ss {
		if !m.asked {
			delete(h.members, ss.sid)
			return
		}
		m.paused, m.gone = true, true
		h.rescanLocked()
	}
}

// isSilent reports whether listening should work here and does not.
func (h *listener) isSilent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent && !h.never
}

func (h *listener) close() {
	h.cancel()
	h.mu.Lock()
	done := h.done
	h.mu.Unlock()
	if done != nil {
		<-done
	}
}

// rescanLocked makes the goroutine that listens read the members again.
func (h *listener) rescanLocked() {
	if h.rescan != nil {
		h.rescan()
	}
}

// changedLocked makes every session ask again whether it is listened for.
func (h *listener) changedLocked() {
	close(h.change)
	h.change = make(chan struct{})
}

// listensLocked notes that a session is listened for from now on.
func (h *listener) listensLocked(m *member) {
	h.heard++
	m.since = h.heard
	h.changedLocked()
}

// idleLocked reports whether no claim waits for a notification, nor has since the last call.
func (h *listener) idleLocked() bool {
	idle := true
	for _, m := range h.members {
		idle = idle && !m.used && !m.ss.waitsNow() && !m.ss.watches()
		m.used = false
	}
	return idle
}
