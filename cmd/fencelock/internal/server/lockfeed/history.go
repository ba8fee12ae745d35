// SPDX-License-Identifier: Apache-2.0

package lockfeed

import (
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
)

// The history is bounded in time and in memory: some 10 MB.
const (
	historyFor  = time.Hour
	historySize = 50_000
	// maxSpans bounds what is returned of one lock, which can have the whole history.
	maxSpans = 1000
)

// Span is the time in which a client held a lock.
type Span struct {
	Lock   string          `json:"-"`
	Owner  string          `json:"owner"`
	Reason string          `json:"reason,omitempty"`
	Token  fencelock.Token `json:"token,omitempty,string"`
	// From is by the age that the store reported, To the last poll that saw it; the
	// client may have held the lock until the poll after that.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Held is set if the client holds the lock now.
	Held bool `json:"held,omitempty"`
}

// History remembers who held what. What was held for less than the time between two polls
// may be missing.
type History struct {
	mu    sync.Mutex
	spans []Span // in the order in which they ended
}

// note takes what changed since the poll at last.
func (h *History) note(events []lockview.Event, last, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		if e.Kind == lockview.EventEnded {
			h.spans = append(h.spans, Span{Lock: e.Lock, Owner: e.Owner, Reason: e.Reason, Token: e.Token,
				From: last.Add(-time.Duration(e.ForMS) * time.Millisecond), To: last})
		}
	}
	gone := max(0, len(h.spans)-historySize)
	for gone < len(h.spans) && now.Sub(h.spans[gone].To) > historyFor {
		gone++
	}
	h.spans = h.spans[gone:]
}

// Of returns who held a lock in the last hour, at most the last maxSpans, the latest last, with those that hold it
// at the time of the snapshot.
func (h *History) Of(name string, s *Snapshot) []Span {
	spans := []Span{}
	h.mu.Lock()
	for _, span := range h.spans {
		if span.Lock == name {
			spans = append(spans, span)
		}
	}
	h.mu.Unlock()
	if st := s.Lock(name); st != nil {
		for _, holder := range st.Holders {
			if !holder.Kept {
				spans = append(spans, Span{Lock: name, Owner: holder.Record.Owner, Reason: holder.Record.Reason, Token: holder.Token,
					From: s.At.Add(-holder.Age), To: s.At, Held: true})
			}
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return a.From.Compare(b.From) })
	return spans[max(0, len(spans)-maxSpans):]
}
