// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"time"
)

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
