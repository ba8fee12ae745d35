// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// Served is D6, for each lock: while a live client waits and none holds, the
// next grant comes within Limits.Stuck of the last release, loss, kill or end of
// a fault (L), and within Limits.Wake of a release, or of the end of what followed
// from a fault, if that came later (W).
// No client waits longer than Limits.Starve, even while others are served (L).
//
//	release      W: Wake            grant
//	   ├───────────────────────────────┤
//	fault begins … healed      L: Stuck        grant
//	                  ├──────────────────────────┤
//	                        … excused   W: Wake  grant
//	                             ├───────────────┤
func Served(events []history.Event, lim Limits) []Violation {
	s := &served{lim: lim, faults: faults(events), locks: map[string]*line{}, asks: map[string]history.Event{}}
	for _, e := range events {
		s.step(e)
	}
	if len(events) > 0 {
		for _, l := range s.locks {
			s.judge(l, events[len(events)-1].At)
		}
	}
	return s.vs
}

// line is the state of one lock: who waits, who holds in their own view, and
// since when no client was served.
type line struct {
	name     string
	waiting  map[string]int64 // since when
	holding  map[string]bool
	idle     int64 // since when a client waits and none holds; 0 if not so
	released int64 // when it was given back, if that is how it became free
}

type served struct {
	lim    Limits
	faults []fault
	locks  map[string]*line
	asks   map[string]history.Event // open ones, by client
	vs     []Violation
}

func (s *served) step(e history.Event) {
	l := s.locks[e.Lock]
	if l == nil && e.Lock != "" {
		l = &line{name: e.Lock, waiting: map[string]int64{}, holding: map[string]bool{}}
		s.locks[e.Lock] = l
	}
	switch e.Kind {
	case history.Ask:
		l.waiting[e.Who] = e.At
		s.asks[e.Who] = e
		l.begin(e.At)
	case history.Miss:
		s.leave(e)
	case history.Grant:
		s.judge(l, e.At)
		s.starved(e)
		delete(l.waiting, e.Who)
		delete(s.asks, e.Who)
		l.holding[e.Who], l.idle, l.released = true, 0, 0
	case history.Lost:
		delete(l.holding, e.Who)
		l.begin(e.At)
	case history.Released:
		delete(l.holding, e.Who)
		if e.Text == "" {
			l.released = e.At
		}
		l.begin(e.At)
	case history.Killed, history.End:
		for _, l := range s.locks {
			delete(l.holding, e.Who)
			l.begin(e.At)
		}
		s.leave(e)
	}
}

// leave: a client waits no more.
func (s *served) leave(e history.Event) {
	ask, ok := s.asks[e.Who]
	if !ok {
		return
	}
	s.starved(e)
	delete(s.asks, e.Who)
	l := s.locks[ask.Lock]
	s.judge(l, e.At)
	delete(l.waiting, e.Who)
	if len(l.waiting) == 0 {
		l.idle, l.released = 0, 0
	}
}

// starved judges a wait that ends: others may have been served all along, and
// this one not. It counts from the end of the last fault.
func (s *served) starved(e history.Event) {
	ask, ok := s.asks[e.Who]
	if !ok {
		return
	}
	calm := ask.At
	for _, f := range s.faults {
		if f.from < e.At && f.until > calm {
			calm = min(f.until, e.At)
		}
	}
	if e.At-calm > int64(s.lim.Starve) {
		s.vs = append(s.vs, Violation{"D6", L, e.At, fmt.Sprintf("%s waited for %s for %s, with no fault since", e.Who, ask.Lock, seconds(e.At-calm))})
	}
}

// begin notes that from now on the lock should be granted.
func (l *line) begin(at int64) {
	if l.idle == 0 && len(l.waiting) > 0 && len(l.holding) == 0 {
		l.idle = at
	}
}

// judge judges the time without a grant that ends at at. The oldest waiter
// counts: a client must have waited all along.
func (s *served) judge(l *line, at int64) {
	if l.idle == 0 || len(l.waiting) == 0 {
		return
	}
	oldest := at
	for _, since := range l.waiting {
		oldest = min(oldest, since)
	}
	from := max(l.idle, oldest)
	calm, plain := from, from // the last part of it without a fault, and without what follows from one
	for _, f := range s.faults {
		if f.from < at && f.until > from {
			calm = max(calm, min(f.until, at))
		}
		if f.from < at && f.after > from {
			plain = max(plain, min(f.after, at))
		}
	}
	switch who := l.names(); {
	case at-calm > int64(s.lim.Stuck):
		s.vs = append(s.vs, Violation{"D6", L, at, fmt.Sprintf("%s was free and not granted for %s, while %v waited", l.name, seconds(at-calm), who)})
		l.idle = 0
	case l.released != 0 && at-plain > int64(s.lim.Wake):
		s.vs = append(s.vs, Violation{"D6", W, at, fmt.Sprintf("%s was released and not granted for %s, while %v waited", l.name, seconds(at-plain), who)})
		l.idle = 0
	}
}

// Handoffs counts the grants that W was judged by: those to a client that waited when
// another one released the lock, after the last fault and its consequences. Without such a
// grant nothing is known about wake-ups.
func Handoffs(events []history.Event) (n int) {
	var excused int64
	for _, f := range faults(events) {
		excused = max(excused, f.after)
	}
	type unlock struct {
		who string
		at  int64
	}
	begun, failed := map[string]int64{}, map[unlock]bool{}
	for _, e := range events {
		switch e.Kind {
		case history.Release:
			begun[e.Who] = e.At
		case history.Released:
			failed[unlock{e.Who, begun[e.Who]}] = e.Text != ""
		}
	}
	asked, free := map[string]int64{}, map[string]history.Event{} // by client; the last Release, by lock
	for _, e := range events {
		switch e.Kind {
		case history.Ask:
			asked[e.Who] = e.At
		case history.Release:
			free[e.Lock] = e
		case history.Grant:
			// The answer to an unlock may come after the next one's grant: what counts is
			// when it was sent.
			r, ok := free[e.Lock]
			if ok && e.At > excused && r.Who != e.Who && asked[e.Who] < r.At && !failed[unlock{r.Who, r.At}] {
				n++
			}
			delete(free, e.Lock)
		}
	}
	return n
}

func (l *line) names() []string {
	var names []string
	for who := range l.waiting {
		names = append(names, who)
	}
	slices.Sort(names)
	return names
}

// Ordered is D8: no client is granted a lock that asked more than Limits.Overtake
// after a client that is still waiting.
func Ordered(events []history.Event, lim Limits) []Violation {
	var vs []Violation
	asks := map[string]history.Event{}
	for _, e := range events {
		switch e.Kind {
		case history.Ask:
			asks[e.Who] = e
		case history.Miss, history.Killed, history.End:
			delete(asks, e.Who)
		case history.Grant:
			mine := asks[e.Who]
			delete(asks, e.Who)
			for who, a := range asks {
				if early := mine.At - a.At; a.Lock == e.Lock && early > int64(lim.Overtake) {
					vs = append(vs, Violation{"D8", O, e.At, fmt.Sprintf("%s was granted %s, and %s had asked %s earlier", e.Who, e.Lock, who, seconds(early))})
				}
			}
		}
	}
	return vs
}
