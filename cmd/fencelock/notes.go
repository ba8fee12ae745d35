// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// waitNotes prints on stderr whom the user waits for: at once, and again from
// time to time, because the holder changes.
type waitNotes struct {
	a       *app
	name    string
	waiting chan fencelock.Event
	stop    chan struct{}
	once    sync.Once
	seen    atomic.Bool // the store said that the lock is taken
}

// noteEvery is how often a long wait is reported again.
const noteEvery = 30 * time.Second

func newWaitNotes(a *app, name string) *waitNotes {
	return &waitNotes{a: a, name: name, waiting: make(chan fencelock.Event, 1), stop: make(chan struct{})}
}

// event is a hook of the client: it must be quick.
func (n *waitNotes) event(e fencelock.Event) {
	if e.Kind == fencelock.LeaseWaiting {
		n.seen.Store(true)
		select {
		case n.waiting <- e:
		default:
		}
	}
}

// follow writes notes until done is called.
func (n *waitNotes) follow(c *fencelock.Client) (end func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		var again <-chan time.Time
		began := time.Now()
		for {
			select {
			case e := <-n.waiting:
				n.a.note("%s", waitingLine(n.name, e.Holder, e.Position, e.Grace))
				if os.Getenv("FENCELOCK_NAME") == n.name {
					n.a.note("this process already runs under a lock called %s; if it is the same store, it waits for itself", n.name)
				}
				again = time.After(noteEvery)
			case <-again:
				n.again(c, time.Since(began))
				again = time.After(noteEvery)
			case <-n.stop:
				return
			}
		}
	}()
	return func() { n.done(); <-over }
}

// again reads who holds it now.
func (n *waitNotes) again(c *fencelock.Client, waited time.Duration) {
	st, err := c.Inspect(context.Background(), n.name)
	if err != nil {
		n.a.note("waiting for %s, %s so far: %v", n.name, text.Short(waited), err)
		return
	}
	var h *fencelock.Holder
	if len(st.Holders) > 0 {
		h = &st.Holders[0]
	}
	n.a.note("%s; waited %s so far", waitingLine(n.name, h, -1, st.Grace), text.Short(waited))
}

func (n *waitNotes) done() { n.once.Do(func() { close(n.stop) }) }

// waitingLine names what is in the way: a holder, or a grace period. A place below 0 is
// not shown.
func waitingLine(name string, h *fencelock.Holder, place int, grace time.Duration) string {
	line := "waiting for " + name
	if grace > 0 {
		return line + ": " + lockview.GraceLine(grace)
	}
	if h != nil {
		line += ": " + holderLine(h, heldFor(" for ", h.Age))
	}
	if place > 0 {
		line += fmt.Sprintf(", %d before you", place)
	}
	return line
}

// holderLine names a holder and its reason.
func holderLine(h *fencelock.Holder, age string) string {
	verb := "held"
	if h.Kept {
		verb = "reserved"
	}
	line := verb + " by " + h.Record.Owner + age
	if h.Record.Reason != "" {
		line += " (" + h.Record.Reason + ")"
	}
	return line
}

const (
	// notesQueued is how many notes wait for a slow reader of stderr; further ones are dropped.
	notesQueued = 64
	// notesFlush is how long the end of run waits for that reader.
	notesFlush = time.Second
)

// noteQueue writes notes in the background. A reader that does not read must not hold up
// the process that renews the deadline of the command.
type noteQueue struct {
	to    io.Writer
	queue chan func()
}

func newNoteQueue(to io.Writer) *noteQueue {
	q := &noteQueue{to: to, queue: make(chan func(), notesQueued)}
	go func() {
		for act := range q.queue {
			act()
		}
	}()
	return q
}

// Write implements io.Writer. It never waits.
func (q *noteQueue) Write(note []byte) (int, error) {
	note = bytes.Clone(note)
	select {
	case q.queue <- func() { _, _ = q.to.Write(note) }:
	default:
	}
	return len(note), nil
}

// flush waits for what was written, but not for long.
func (q *noteQueue) flush() {
	over, done := time.After(notesFlush), make(chan struct{})
	select {
	case q.queue <- func() { close(done) }:
		select {
		case <-done:
		case <-over:
		}
	case <-over:
	}
}
