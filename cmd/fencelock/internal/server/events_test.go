// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memstore"
)

// viewer reads a stream of events.
type viewer struct {
	lines *bufio.Scanner
	id    string
	stop  func()
}

type received struct{ kind, data string }

// watch opens a stream. change may be nil.
func (w *world) watch(query string, change func(*http.Request)) *viewer {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	req, err := http.NewRequestWithContext(ctx, "GET", w.web.URL+"/v1/events"+query, nil)
	must.OK(w, err)
	if change != nil {
		change(req)
	}
	resp, err := w.web.Client().Do(req)
	must.OK(w, err)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	stop := func() { cancel(); _ = resp.Body.Close() }
	w.Cleanup(stop)
	return &viewer{bufio.NewScanner(resp.Body), "", stop}
}

// next reads an event; its kind is empty at the end of the stream.
func (v *viewer) next() (e received) {
	for v.lines.Scan() {
		key, value, _ := strings.Cut(v.lines.Text(), ": ")
		switch key {
		case "id":
			v.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e.kind != "" {
				return e
			}
		}
	}
	return received{}
}

// find reads on to an event of a kind with a text in it.
func (w *world) find(v *viewer, kind, text string) received {
	w.Helper()
	for {
		e := v.next()
		if e.kind == "" {
			w.Fatalf("the stream ended before %s with %s", kind, text)
		}
		if e.kind == kind && strings.Contains(e.data, text) {
			return e
		}
	}
}

// TestEventsReportChanges: a viewer sees what begins and ends, only of the prefix that it
// asked for, and continues where it left off.
func TestEventsReportChanges(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		w := newWorld(t, store, nil)
		all, some := w.watch("", nil), w.watch("?prefix=b", nil)
		w.find(all, "poll", "revision")
		w.find(some, "poll", "revision")
		l := w.hold("ann", "a", "b")
		w.find(all, "change", `"event":"held","lock":"a","owner":"ann"`)
		for e := some.next(); e.kind != "change"; e = some.next() {
		}
		all.stop()
		must.OK(t, l[0].Unlock(t.Context()))
		w.until("it is free", func() bool { return w.list("").Total == 1 })
		again := w.watch("", func(r *http.Request) { r.Header.Set("Last-Event-ID", all.id) })
		w.find(again, "change", `"event":"ended","lock":"a"`)
	})
}

// TestForeignEventIDsAreMissed: the id of another process is not taken for one of this one.
func TestForeignEventIDsAreMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	for _, id := range []string{"ABCDEFGH-1", w.server.boot + "-99999999", "x", w.server.boot + "-"} {
		v := w.watch("", func(r *http.Request) { r.Header.Set("Last-Event-ID", id) })
		e := v.next()
		if e.kind == "store" {
			e = v.next()
		}
		if e.kind != "missed" {
			t.Errorf("%s: got %+v", id, e)
		}
		v.stop()
	}
}

// TestEventsReportTheStore: viewers are notified when the store stops answering.
func TestEventsReportTheStore(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	w := newWorld(t, onRedis(t, redis), nil)
	v := w.watch("", nil)
	w.find(v, "poll", "revision")
	rewind, err := redis.Checkpoint()
	must.OK(t, err)
	redis.Kill()
	w.find(v, "store", "unreachable")
	must.OK(t, rewind())
	w.find(v, "store", "reachable")
}

// TestStreamsEndWithTheServer: the server does not wait for viewers.
func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	v := w.watch("", nil)
	w.stop()
	for e := v.next(); e.kind != ""; e = v.next() {
	}
	if err := servers.Await("the stream is gone", func() bool { return w.server.streams.Load() == 0 }); err != nil {
		t.Error(err)
	}
}

// TestStreamsAreBounded: viewers beyond the limit are rejected with an answer.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	w.server.streams.Store(maxStreams)
	var p problem
	if status := w.get("/v1/events", &p, nil); status != http.StatusServiceUnavailable || p.Code != "streams" {
		t.Errorf("got %d, %+v", status, p)
	}
}
