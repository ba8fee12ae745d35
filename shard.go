// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"sync"
)

// shard is what this client knows of one shard of the store: its session
// there, and a line for every name that is exclusively held or waited for.
//
// One mutex guards it all: sessions, lines, grants and leases of the shard. It
// is never held during I/O; the only mutex taken under it is the client's.
type shard struct {
	c  *Client
	id string

	mu      sync.Mutex
	closed  bool
	session *session // opening or open; nil if there is none
	lines   map[string]*line
}

// line returns the line of that name, made if there is none.
func (sh *shard) line(name string) *line {
	ln := sh.lines[name]
	if ln == nil {
		ln = &line{name: name}
		sh.lines[name] = ln
	}
	return ln
}

// tidy keeps nothing for a name that is neither held exclusively nor waited
// for.
func (sh *shard) tidy(ln *line) {
	if ln.idle() && sh.lines[ln.name] == ln {
		delete(sh.lines, ln.name)
	}
}

// enter returns the shard's open session with one more user, which must leave
// it. It opens one if there is none.
func (sh *shard) enter(ctx context.Context) (*session, error) {
	for {
		sh.mu.Lock()
		s := sh.session
		switch {
		case sh.closed:
			sh.mu.Unlock()
			return nil, ErrClosed
		case s == nil:
			s = newSession(sh)
			if !sh.c.background(s.run) {
				sh.mu.Unlock()
				return nil, ErrClosed
			}
			sh.session = s
		case s.open:
			s.users++
			sh.mu.Unlock()
			return s, nil
		}
		sh.mu.Unlock()
		select {
		case <-s.ready:
			if s.openErr != nil {
				return nil, s.openErr
			}
		case <-ctx.Done():
			return nil, ctxError(ctx)
		}
	}
}

// close ends everything with ErrClosed.
func (sh *shard) close() {
	sh.mu.Lock()
	sh.closed = true
	s := sh.session
	for _, ln := range sh.lines {
		for w := ln.pop(); w != nil; w = ln.pop() {
			w.ready <- turn{err: ErrClosed}
		}
	}
	sh.mu.Unlock()
	if s != nil {
		s.end(ErrClosed)
	}
}
