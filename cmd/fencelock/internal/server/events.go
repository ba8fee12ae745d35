// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
)

const (
	// maxStreams bounds the memory that viewers can use up.
	maxStreams = 1000
	// maxUserStreams bounds those of one user, so that it cannot use up all of them.
	maxUserStreams = 50
	// heartbeat is how often a stream without events has a line, so that proxies keep it
	// and a dead client is noticed.
	heartbeat = 15 * time.Second
	// writeWithin is how long a client may take to accept events.
	writeWithin = 10 * time.Second
)

// events streams what changes, as server-sent events.
func (s *Server) events(w http.ResponseWriter, c *call) error {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return failed(http.StatusServiceUnavailable, "streams", "%d streams are open; close one, or try again later", maxStreams)
	}
	defer s.streams.Add(-1)
	if s.cfg.Policy != nil { // without users all callers have one name
		if !s.userStreams.enter(c.caller.Name, maxUserStreams) {
			return failed(http.StatusTooManyRequests, "streams", "%s has %d open streams; close one, or try again later", c.caller.Name, maxUserStreams)
		}
		defer s.userStreams.leave(c.caller.Name)
	}
	defer s.poller.Watch()()
	stream := &stream{s: s, w: w, rc: http.NewResponseController(w), c: c, prefix: c.query.Get("prefix")}
	stream.at = s.resume(c.Header.Get("Last-Event-ID"))
	_ = stream.rc.SetReadDeadline(time.Time{}) // it would end the stream
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	stream.text.WriteString("retry: 2000\n\n")
	if e, ok := s.poller.StoreNow(); ok { // after resume, so that no later event is older
		fmt.Fprintf(&stream.text, "event: %s\ndata: %s\n\n", e.Kind, stream.dataOf(&e))
	}
	stream.run()
	return nil
}

// resume finds where a client left off: after the event with its last id, or at the end.
func (s *Server) resume(last string) uint64 {
	if last == "" {
		return s.poller.Feed.Last()
	}
	boot, seq, _ := strings.Cut(last, "-")
	n, err := strconv.ParseUint(seq, 10, 63)
	if boot != s.boot || err != nil {
		return 1 << 63 // of another process: events were missed
	}
	return n
}

// stream is a client that reads events.
type stream struct {
	s      *Server
	w      http.ResponseWriter
	rc     *http.ResponseController
	c      *call
	prefix string
	at     uint64 // the last event that was sent
	text   bytes.Buffer
}

// run sends events until the client or the server ends, or the caller is no longer
// known.
func (t *stream) run() {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	// What the standard library writes at the end must not wait for the client forever.
	defer func() { _ = t.rc.SetWriteDeadline(time.Now().Add(writeWithin)) }()
	for t.known() {
		events, missed, more := t.s.poller.Feed.After(t.at)
		if missed {
			t.at = t.s.poller.Feed.Last()
			fmt.Fprintf(&t.text, "id: %s-%d\nevent: missed\ndata: {}\n\n", t.s.boot, t.at)
		}
		for _, e := range events {
			t.add(&e)
			if t.text.Len() > 64<<10 && !(t.flush() && t.known()) {
				return
			}
		}
		if !t.flush() {
			return
		}
		if len(events) > 0 || missed {
			continue
		}
		select {
		case <-more:
		case <-beat.C:
			t.text.WriteString(": \n\n")
		case <-t.c.Context().Done():
			return
		case <-t.s.closing:
			return
		}
	}
}

// known reports whether the caller is still a user, and takes the rights that it has now. A
// client that reads slowly always has events to read, so each write needs a check.
func (t *stream) known() bool {
	caller, err := t.s.identify(t.c.Request)
	if err != nil || caller.Name != t.c.caller.Name {
		return false
	}
	t.c.caller = caller
	return true
}

func (t *stream) add(e *lockfeed.Event) {
	t.at = e.Seq
	if e.Lock != "" && (!strings.HasPrefix(e.Lock, t.prefix) || !t.c.caller.Sees(e.Lock)) {
		return
	}
	fmt.Fprintf(&t.text, "id: %s-%d\nevent: %s\ndata: %s\n\n", t.s.boot, e.Seq, e.Kind, t.dataOf(e))
}

// dataOf is what the caller may know of an event.
func (t *stream) dataOf(e *lockfeed.Event) []byte {
	if e.Limited != nil && !t.c.caller.Sees("") {
		return e.Limited
	}
	return e.Data
}

// flush sends what there is and reports whether the client took it.
func (t *stream) flush() bool {
	if t.text.Len() == 0 {
		return true
	}
	_ = t.rc.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := t.w.Write(t.text.Bytes())
	t.text.Reset()
	if err != nil || t.rc.Flush() != nil {
		return false
	}
	// HTTP/2 resets a stream whose deadline passes even while nothing is written.
	_ = t.rc.SetWriteDeadline(time.Time{})
	return true
}
