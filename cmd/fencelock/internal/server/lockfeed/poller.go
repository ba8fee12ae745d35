// SPDX-License-Identifier: Apache-2.0

package lockfeed

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

const (
	// idleFactor is how much slower the store is polled while there are no viewers: their
	// history needs polls, too.
	idleFactor = 10
	// idleAfter is how long a request counts as a viewer.
	idleAfter = 30 * time.Second
	// restFactor bounds the load: a listing that takes long is followed by a pause
	// this many times as long.
	restFactor = 4
)

// Poller polls a store. Client, Logger, Every and Lists must be set before it is used.
type Poller struct {
	Client *fencelock.Client
	Logger *slog.Logger
	Every  time.Duration
	// Lists is set if the store can list its locks. Another store is polled only to find
	// out whether it answers, and its snapshots are empty.
	Lists   bool
	Feed    Feed
	History History

	mu       sync.Mutex
	state    State
	polls    Polls
	asked    time.Time // of the last request
	viewers  int
	polled   chan struct{} // closed and replaced at the end of every poll
	nudged   chan struct{} // of one, made by init
	once     sync.Once
	renewals lockview.Renewals
}

// State is what is known of the store.
type State struct {
	// Snapshot is the last that was read, nil if none was.
	Snapshot *Snapshot
	// Err is why the last poll failed, nil if it did not. Since is then when polls began
	// to fail.
	Err   error
	Since time.Time
	// Took is how long the last poll took, Ended when it ended.
	Took  time.Duration
	Ended time.Time
}

// Polls counts the polls of this process.
type Polls struct{ Count, Failed uint64 }

// fresh reports whether the last poll is not long ago, as it is while there are viewers.
func (s *State) fresh(now time.Time, every time.Duration) bool {
	return !s.Ended.IsZero() && now.Sub(s.Ended) <= 2*every+restFactor*s.Took
}

// pause is how long to wait until the next poll.
func pause(took, every time.Duration, idle bool) time.Duration {
	if idle {
		every *= idleFactor
	}
	return max(every, restFactor*took)
}

func (p *Poller) init() {
	p.once.Do(func() { p.polled, p.nudged = make(chan struct{}), make(chan struct{}, 1) })
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) {
	p.init()
	for ctx.Err() == nil {
		began := time.Now()
		locks, err := p.read(ctx)
		if ctx.Err() != nil {
			return
		}
		p.took(locks, err, began, time.Now())
		p.rest(ctx)
	}
}

func (p *Poller) read(ctx context.Context) ([]fencelock.Status, error) {
	if p.Lists {
		return (&lockview.Selection{}).Read(ctx, p.Client)
	}
	_, err := p.Client.Inspect(ctx, "fencelock-serve/probe")
	return nil, err
}

// rest waits until the next poll. A viewer that comes shortens the wait.
func (p *Poller) rest(ctx context.Context) {
	for {
		p.mu.Lock()
		idle := p.viewers == 0 && time.Since(p.asked) > idleAfter
		left := pause(p.state.Took, p.Every, idle) - time.Since(p.state.Ended)
		p.mu.Unlock()
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-p.nudged:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// took takes the result of a poll.
func (p *Poller) took(locks []fencelock.Status, err error, began, now time.Time) {
	p.mu.Lock()
	before := p.state
	p.state.Took, p.state.Ended = now.Sub(began), now
	p.state.Err = err
	p.polls.Count++
	if err != nil {
		p.polls.Failed++
	}
	var revision uint64 = 1
	if before.Snapshot != nil {
		revision = before.Snapshot.Revision + 1
	}
	switch {
	case err != nil && before.Err == nil:
		p.state.Since = now
	case err == nil:
		p.state.Snapshot = newSnapshot(revision, now, locks, &p.renewals)
	}
	after := p.state
	close(p.polled)
	p.polled = make(chan struct{})
	p.mu.Unlock()
	p.publish(&before, &after)
}

// publish writes the log, the feed and the history. Only Run calls it, so polls are in order.
func (p *Poller) publish(before, after *State) {
	if after.Err != nil {
		if before.Err == nil {
			p.Logger.Error(NoAnswer, "error", text.OneLine(after.Err))
			p.Feed.add(after.event())
		}
		return
	}
	var events []Event
	if before.Err != nil {
		p.Logger.Info("the store answers again", "after", after.Ended.Sub(before.Since).Round(time.Millisecond))
		events = append(events, after.event())
	}
	if before.Snapshot != nil {
		changes := lockview.Changes(before.Snapshot.Locks, after.Snapshot.Locks)
		p.History.note(changes, before.Snapshot.At, after.Snapshot.At)
		for _, c := range changes {
			events = append(events, event("change", c.Lock, changeEvent{after.Ended, c}))
		}
	}
	p.Feed.add(append(events, event("poll", "", pollEvent{after.Snapshot.Revision, after.Snapshot.At}))...)
}

// StoreNow is the event of whether the store answers now, for a viewer that comes; ok is
// false before the first poll.
func (p *Poller) StoreNow() (e Event, ok bool) {
	state := p.Now()
	if state.Ended.IsZero() {
		return Event{}, false
	}
	return state.event(), true
}

func (s *State) event() Event {
	if s.Err != nil {
		e := event("store", "", storeEvent{s.Since, "unreachable", text.OneLine(s.Err)})
		e.Limited = event("store", "", storeEvent{s.Since, "unreachable", NoAnswer}).Data
		return e
	}
	return event("store", "", storeEvent{s.Ended, "reachable", ""})
}

// NoAnswer is the error of the store for viewers that may not see all locks.
const NoAnswer = "the store does not answer"

// The data of events.
type (
	changeEvent struct {
		Time time.Time `json:"time"`
		lockview.Event
	}
	storeEvent struct {
		Time  time.Time `json:"time"`
		Kind  string    `json:"event"` // unreachable, reachable
		Error string    `json:"error,omitempty"`
	}
	pollEvent struct {
		Revision uint64    `json:"revision"`
		AsOf     time.Time `json:"as_of"`
	}
)

func event(kind, lock string, data any) Event {
	text, err := json.Marshal(data)
	if err != nil {
		panic("poll: " + err.Error()) // these types can be encoded
	}
	return Event{Kind: kind, Lock: lock, Data: text}
}

// Watch counts a viewer until done is called.
func (p *Poller) Watch() (done func()) {
	p.init()
	p.mu.Lock()
	p.viewers++
	p.mu.Unlock()
	p.nudge()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.viewers--
		p.asked = time.Now()
		p.mu.Unlock()
	})
}

// nudge makes rest compute its wait again.
func (p *Poller) nudge() {
	select {
	case p.nudged <- struct{}{}:
	default:
	}
}

// Now returns what is known now, without waiting.
func (p *Poller) Now() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Polls returns how many polls there were.
func (p *Poller) Polls() Polls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polls
}

// Current returns what is known, and after a pause without viewers waits for the next
// poll, as long as ctx allows.
func (p *Poller) Current(ctx context.Context) State {
	p.init()
	p.mu.Lock()
	p.asked = time.Now()
	state, polled := p.state, p.polled
	p.mu.Unlock()
	if state.fresh(time.Now(), p.Every) {
		return state
	}
	p.nudge()
	select {
	case <-polled:
	case <-ctx.Done():
	}
	return p.Now()
}
