// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// waitNotes tells people on stderr whom they wait for: at once, and again from
// time to time, because the holder changes.
type waitNotes struct {
	a       *app
	name    string
	waiting chan fencelock.Event
	stop    chan struct{}
	once    sync.Once
}

// noteEvery is how often a long wait is told again.
const noteEvery = 30 * time.Second

func newWaitNotes(a *app, name string) *waitNotes {
	return &waitNotes{a: a, name: name, waiting: make(chan fencelock.Event, 1), stop: make(chan struct{})}
}

// event is a hook of the client: it must be quick.
func (n *waitNotes) event(e fencelock.Event) {
	if e.Kind == fencelock.LeaseWaiting {
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
				n.a.note("%s", waitingLine(n.name, e.Holder, e.Place))
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

// again looks who holds it now.
func (n *waitNotes) again(c *fencelock.Client, waited time.Duration) {
	st, err := c.Inspect(context.Background(), n.name)
	if err != nil {
		n.a.note("waiting for %s since %s: %v", n.name, short(waited), err)
		return
	}
	var h *fencelock.Holder
	if len(st.Holders) > 0 {
		h = &st.Holders[0]
	}
	n.a.note("%s; waiting since %s", waitingLine(n.name, h, -1), short(waited))
}

func (n *waitNotes) done() { n.once.Do(func() { close(n.stop) }) }

// waitingLine says who is in the way. A place below 0 is not told.
func waitingLine(name string, h *fencelock.Holder, place int) string {
	line := "waiting for " + name
	if h != nil {
		verb := "held"
		if h.Kept {
			verb = "kept taken"
		}
		line += fmt.Sprintf(": %s by %s for %s", verb, h.Record.Owner, short(h.Age))
		if h.Record.Reason != "" {
			line += " (" + h.Record.Reason + ")"
		}
	}
	if place > 0 {
		line += fmt.Sprintf(", %d before you", place)
	}
	return line
}
