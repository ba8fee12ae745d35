// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// reader is a client of a stream that does something at each write.
type reader struct {
	http.ResponseWriter
	wrote    func(text []byte) error
	deadline time.Time
	within   []time.Time // the deadline of each write
}

func (r *reader) Write(text []byte) (int, error) {
	r.within = append(r.within, r.deadline)
	return len(text), r.wrote(text)
}

func (r *reader) Flush() {}

func (r *reader) SetWriteDeadline(at time.Time) error { r.deadline = at; return nil }

// TestRemovedUserThatReadsSlowlyLosesItsStream: a user that is removed while its client
// accepts a write gets no further event, although there is always one to send.
func TestRemovedUserThatReadsSlowlyLosesItsStream(t *testing.T) {
	t.Parallel()
	token, hash := access.NewToken()
	policy := func(name string) *access.Policy {
		p, err := access.Parse(fmt.Appendf(nil, `{"users":[{"name":%q,"tokens":[%q],"rights":[{"prefix":"","may":["see"]}]}]}`, name, hash))
		must.OK(t, err)
		return p
	}
	for what, locks := range map[string]int{"between batches": 0, "in a batch": 300} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var users atomic.Pointer[access.Policy]
			users.Store(policy("ann"))
			w := newWorld(t, memstore.New(nil), func(cfg *Config) { cfg.Policy = users.Load })
			w.until("the store is polled", func() bool { return w.server.poller.Now().Snapshot != nil })
			from := w.server.poller.Feed.Last()
			var names []string
			for i := range locks {
				names = append(names, fmt.Sprint(strings.Repeat("x", 400), i))
			}
			w.hold("bob", names...)
			w.until("there are events", func() bool { return w.server.poller.Feed.Last() > from+uint64(locks) })
			writes := 0
			client := &reader{ResponseWriter: httptest.NewRecorder(), wrote: func(text []byte) error {
				if writes++; writes == 1 {
					users.Store(policy("eve"))
				}
				if locks > 0 && writes == 1 && bytes.Count(text, []byte("event: change")) >= locks {
					t.Error("all events were one write")
				}
				if writes == 3 {
					return io.ErrClosedPipe // ends a stream that does not end by itself
				}
				last := w.server.poller.Feed.Last()
				w.until("there is another event", func() bool { return w.server.poller.Feed.Last() > last })
				return nil
			}}
			req := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/events", nil)
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Last-Event-ID", fmt.Sprintf("%s-%d", w.server.boot, from))
			w.server.ServeHTTP(client, req)
			if writes != 1 {
				t.Errorf("%d writes, the user was removed in the first", writes)
			}
		})
	}
}

// TestStreamHasADeadlineOnlyWhileItWrites: HTTP/2 resets a stream whose deadline passes,
// and there are more than ten seconds between two heartbeats.
func TestStreamHasADeadlineOnlyWhileItWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	client := &reader{ResponseWriter: httptest.NewRecorder(), wrote: func([]byte) error { return nil }}
	s := &stream{s: w.server, w: client, rc: http.NewResponseController(client)}
	s.text.WriteString("x")
	if !s.flush() || len(client.within) != 1 || client.within[0].IsZero() || !client.deadline.IsZero() {
		t.Errorf("deadlines of writes %v, after them %v", client.within, client.deadline)
	}
}

// TestStreamsBeginWithTheStore: a viewer that comes during an outage learns of it, and one
// that comes later learns that the store answers.
func TestStreamsBeginWithTheStore(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	w := newWorld(t, onRedis(t, redis), nil)
	w.until("the store is polled", func() bool { return w.server.poller.Now().Snapshot != nil })
	if e := w.watch("", nil).next(); e.kind != "store" || !strings.Contains(e.data, `"event":"reachable"`) {
		t.Errorf("got %+v", e)
	}
	redis.Kill()
	w.until("the store is unreachable", func() bool { return w.server.poller.Now().Err != nil })
	if e := w.watch("", nil).next(); e.kind != "store" || !strings.Contains(e.data, `"event":"unreachable"`) {
		t.Errorf("got %+v", e)
	}
}

// TestStreamsOfAUserAreBounded: a user cannot use up the streams of all others, and one that
// ends makes room.
func TestStreamsOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	viewers := make([]*viewer, maxUserStreams)
	for i := range viewers {
		viewers[i] = g.watch("", g.as("viewer"))
	}
	var p problem
	if status := g.get("/v1/events", &p, g.as("viewer")); status != http.StatusTooManyRequests || p.Code != "streams" {
		t.Errorf("got %d, %+v", status, p)
	}
	g.watch("", g.as("admin"))
	viewers[0].stop()
	g.until("there is room", func() bool { return g.server.streams.Load() == maxUserStreams })
	g.watch("", g.as("viewer"))
}
