// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// health is what this process knows of the nodes, whatever the session: which
// answer, and how their clocks stand to each other.
type health struct {
	s     *Store
	began time.Time // with its monotonic reading

	mu    sync.Mutex
	node  []condition
	apart bool // the clocks are, and it was reported
}

// condition is the health of one node.
type condition struct {
	away     bool
	other    bool          // it belongs to another list
	notified bool          // its clock is known
	offset   time.Duration // its clock minus ours
	skew     time.Duration // its clock minus the median
	far      bool          // too far to count
	marker   driver.Token  // the highest of its marker; 0 when it was taken note of
	calls    int           // in flight
	heard    time.Time     // when it answered last, or when the first of these calls began
}

// crowd is how many calls may be in flight on a node that has not answered for a tenth of
// NodeTimeout. A round asks no more of it then, as if it were away: each claim that it
// does not answer is kept in memory until the node is back.
const crowd = 256

// calling notes that a call to a node begins.
func (h *health) calling(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.node[n]
	if c.calls++; c.calls == 1 {
		c.heard = time.Now()
	}
}

// called notes that a call to a node is over.
func (h *health) called(n int, err error) {
	h.mu.Lock()
	h.node[n].calls--
	h.mu.Unlock()
	h.answered(n, err)
}

// crowdedLocked reports whether too many calls wait for the node. h.mu must be held.
func (c *condition) crowdedLocked(nodeTimeout time.Duration) bool {
	return c.calls >= crowd && time.Since(c.heard) > nodeTimeout/10
}

func newHealth(s *Store) *health {
	return &health{s: s, began: time.Now(), node: make([]condition, len(s.nodes))}
}

// answered notes how a call to a node ended. Only silence counts against it: an
// error is an answer.
func (h *health) answered(n int, err error) {
	silent := errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
	h.mu.Lock()
	c := &h.node[n]
	changed := c.away != silent
	if c.away = silent; !silent {
		c.heard = time.Now()
	}
	h.mu.Unlock()
	switch {
	case changed && silent:
		h.s.opts.Alarm(Alarm{Kind: NodeAway, Node: h.s.nodes[n].Name, Err: err})
	case changed:
		h.s.opts.Alarm(Alarm{Kind: NodeBack, Node: h.s.nodes[n].Name})
	}
}

// listed notes whether a node belongs to another list, with the error that says so.
// A process that opens sessions again and again meets it every time; it is reported once.
func (h *health) listed(n int, err error) {
	h.mu.Lock()
	c := &h.node[n]
	notified := c.other
	c.other = err != nil
	h.mu.Unlock()
	if err != nil && !notified {
		h.s.opts.Alarm(Alarm{Kind: OtherList, Node: h.s.nodes[n].Name, Err: err})
	}
}

// worth returns the nodes that a round should ask: those that answer, if they are
// enough, otherwise all.
func (h *health) worth(need int) (nodes vote.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, c := range h.node {
		if !c.away && !c.crowdedLocked(h.s.opts.NodeTimeout) {
			nodes = nodes.With(i)
		}
	}
	if nodes.Len() >= need {
		return nodes
	}
	return 1<<len(h.node) - 1
}

// marked notes the token that a node reported with its marker: what is asked for next is
// above it. The markers come first, one by one, and a node whose clock is a year ahead
// must not raise the tokens of all before the others' clocks are known: until three
// are, it is unknown whose is wrong.
func (h *health) marked(n int, token driver.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.node[n].marker = max(h.node[n].marker, token)
	h.takeLocked()
}

// takeLocked takes note of the tokens of the markers that can be judged. h.mu must be held.
func (h *health) takeLocked() {
	known := 0
	for _, c := range h.node {
		if c.notified {
			known++
		}
	}
	for i := range h.node {
		c := &h.node[i]
		if c.far || c.notified && known <= 2 && h.s.caps.MaxTTL > 0 {
			continue
		}
		h.s.sawToken(c.marker)
		c.marker = 0
	}
}

// counts reports whether a node's clock lets its votes count.
func (h *health) counts(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.node[n].far
}

// clock notes what a node's clock showed for a call that was sent and came back at
// those times. The node may have read it at any moment between, so the middle is
// wrong by half of the round trip at most.
func (h *health) clock(n int, shown, sent, back time.Time) {
	if shown.IsZero() {
		return
	}
	// Our own wall clock may be stepped between two answers, and the nodes would seem to
	// have been: so it is read once, and only the time since then is added.
	offset := shown.Sub(h.began.Add(sent.Sub(h.began))) - back.Sub(sent)/2
	var alarms []Alarm
	h.mu.Lock()
	h.node[n].notified, h.node[n].offset = true, offset
	var known []int
	var offsets []time.Duration
	for i, c := range h.node {
		if c.notified {
			known, offsets = append(known, i), append(offsets, c.offset)
		}
	}
	skews, spread := vote.Skews(offsets)
	quarantine := h.s.caps.MaxTTL
	for k, i := range known {
		c := &h.node[i]
		c.skew = skews[k]
		// With fewer than three clocks it is unknown whose is wrong.
		far := len(known) > 2 && quarantine > 0 && !vote.Counts(skews[k], quarantine)
		if far != c.far {
			kind := NodeCounted
			if far {
				kind = NodeNotCounted
			}
			alarms = append(alarms, Alarm{Kind: kind, Node: h.s.nodes[i].Name, Skew: skews[k]})
		}
		c.far = far
	}
	apart := quarantine > 0 && vote.Alarming(spread, quarantine)
	if apart && !h.apart {
		alarms = append(alarms, Alarm{Kind: ClocksApart, Node: h.s.nodes[n].Name, Skew: spread})
	}
	h.apart = apart
	h.takeLocked()
	h.mu.Unlock()
	for _, a := range alarms {
		h.s.opts.Alarm(a)
	}
}

// NodeHealth is what a process knows of one node.
type NodeHealth struct {
	// Name is the name of the node.
	Name string
	// Away is set if it did not answer in time when it was asked last.
	Away bool
	// Skew is how far its clock is from the median of the nodes, and Counted is
	// not set if that is too far for its votes to count.
	Skew    time.Duration
	Counted bool
}

// Health returns what this process knows of the nodes. It does no I/O.
func (s *Store) Health() []NodeHealth {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	all := make([]NodeHealth, len(s.nodes))
	for i, c := range s.health.node {
		all[i] = NodeHealth{Name: s.nodes[i].Name, Away: c.away, Skew: c.skew, Counted: !c.far}
	}
	return all
}
