// SPDX-License-Identifier: Apache-2.0

package lockfeed

import (
	"slices"
	"sync"
)

// feedLength is how many events a viewer can be behind, or away, and still miss none. A
// store with ten thousand busy locks fills it in about a second.
const feedLength = 1 << 14

// Event is a line of the feed.
type Event struct {
	// Seq rises by one with every event.
	Seq uint64
	// Kind is change, poll or store.
	Kind string
	// Lock is the name of the lock that changed, for the rights of a viewer.
	Lock string
	// Data is JSON, encoded once for all viewers.
	Data []byte
	// Limited is the Data for a viewer that may not see all locks, nil if it is the same.
	Limited []byte
}

// Feed keeps the latest events. Viewers read it at their own pace and have no buffers, so a
// viewer that does not read costs nothing.
type Feed struct {
	mu     sync.Mutex
	events []Event // at most 2*feedLength, the last feedLength of them are guaranteed
	last   uint64
	more   chan struct{} // closed and replaced when events are added
}

// add appends events and gives them their numbers.
func (f *Feed) add(events ...Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		f.last++
		e.Seq = f.last
		f.events = append(f.events, e)
	}
	if n := len(f.events); n > 2*feedLength {
		f.events = slices.Clone(f.events[n-feedLength:])
	}
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// Last is the number of the latest event.
func (f *Feed) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// After returns the events after a number, whether some of them are no longer there, and a
// channel that is closed when there are more. A number that was never given out is one of
// another process: events were missed then, too.
func (f *Feed) After(seq uint64) (events []Event, missed bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more == nil {
		f.more = make(chan struct{})
	}
	if seq > f.last {
		return nil, true, f.more
	}
	first := f.last - uint64(len(f.events)) + 1
	if seq+1 < first {
		return nil, true, f.more
	}
	return f.events[seq+1-first:], false, f.more
}
