// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func names(l lockList) string {
	var all []string
	for _, r := range l.Locks {
		all = append(all, r.Lock)
	}
	return strings.Join(all, " ")
}

// TestLocksAreListed: the list is sorted, filtered and cut as asked, and counts what it
// leaves out.
func TestLocksAreListed(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		w := newWorld(t, store, nil)
		w.hold("ann@web:1", "a/1", "a/2", "b/1")
		w.hold("Bob@ci:2", "c")
		w.queue(client(t, store, &fencelock.Options{Owner: "eve"}), "b/1")
		w.until("all locks are there", func() bool { l := w.list(""); return l.Total == 4 && l.Waiting == 1 })
		for query, want := range map[string]string{
			"":                               "b/1 a/1 a/2 c",
			"?sort=name":                     "a/1 a/2 b/1 c",
			"?sort=name&limit=2":             "a/1 a/2",
			"?sort=name&limit=2&after=a%2F2": "b/1 c",
			"?sort=name&offset=3":            "c",
			"?sort=oldest":                   "a/1 a/2 b/1 c",
			"?prefix=a/&sort=name":           "a/1 a/2",
			"?owner=Bob":                     "c",
			"?text=bOB":                      "c",
			"?text=BECAUSE+of+a":             "a/1 a/2",
			"?waited=true":                   "b/1",
			"?older_than=1h":                 "",
			"?limit=0":                       "",
			"?prefix=nothing":                "",
		} {
			if got := names(w.list(query)); got != want {
				t.Errorf("%s: got %q, want %q", query, got, want)
			}
		}
		l := w.list("?limit=1")
		if l.Total != 4 || l.Held != 4 || l.Contended != 1 || l.Waiting != 1 || l.Revision == 0 || l.Time.IsZero() {
			t.Errorf("got %+v", l)
		}
		if r := l.Locks[0]; r.Holder == nil || r.Holder.Owner != "ann@web:1" || r.Holder.Token == 0 || r.EndsInMS <= 0 || r.Waiting != 1 || r.State != "held" {
			t.Errorf("got %+v", r)
		}
	})
}

// TestWrongQueriesAreRejected: what is misspelled is an error, and not a filter that is missing.
func TestWrongQueriesAreRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	for query, word := range map[string]string{
		"/v1/locks?prefx=a": "prefx", "/v1/locks?prefix=a&prefix=b": "2 times", "/v1/locks?limit=501": "500", "/v1/locks?limit=-1": "limit",
		"/v1/locks?offset=x": "offset", "/v1/locks?sort=size": "contended", "/v1/locks?older_than=5": "90s", "/v1/locks?waited=yes": "true",
		"/v1/locks?a;b": "semicolon", "/v1/lock": "name", "/v1/graph?x=1": "x", "/v1/locks?after=a": "sort=name",
	} {
		var p problem
		if status := w.get(query, &p, nil); status != http.StatusBadRequest || !strings.Contains(p.Detail, word) {
			t.Errorf("%s: got %d, %+v", query, status, p)
		}
	}
}

// TestOneLock: a lock is shown with its queue and with those that held it before.
func TestOneLock(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		w := newWorld(t, store, nil)
		var d lockDetail
		w.get("/v1/lock?name=a", &d, nil)
		if d.State != "free" || d.Lock.Lock != "a" || len(d.History) != 0 {
			t.Errorf("got %+v", d)
		}
		first := w.hold("ann", "a")[0]
		w.until("ann is seen", func() bool { w.get("/v1/lock?name=a", &d, nil); return len(d.Holders) == 1 })
		bob := client(t, store, &fencelock.Options{Owner: "bob"})
		w.queue(bob, "a")
		w.until("bob is seen", func() bool { w.get("/v1/lock?name=a", &d, nil); return len(d.Waiters) == 1 })
		if d.Waiters[0].Owner != "bob" || d.Waiting != 1 || d.Holders[0].Token != first.Token() || len(d.History) != 1 || !d.History[0].Held {
			t.Errorf("got %+v", d)
		}
		must.OK(t, first.Unlock(t.Context()))
		w.until("ann is history", func() bool {
			d = lockDetail{}
			w.get("/v1/lock?name=a", &d, nil)
			return len(d.History) > 0 && !d.History[0].Held
		})
		if h := d.History[0]; h.Owner != "ann" || h.Token != first.Token() || !h.From.Before(h.To) || h.Reason != "because of a" {
			t.Errorf("got %+v", h)
		}
	})
}

// TestGraphShowsDeadlocks: two processes that wait for each other are a cycle.
func TestGraphShowsDeadlocks(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		w := newWorld(t, store, nil)
		ann := client(t, store, &fencelock.Options{Owner: "ann"})
		bob := client(t, store, &fencelock.Options{Owner: "bob"})
		w.holdWith(ann, "a", "unrelated")
		w.holdWith(bob, "b")
		w.queue(ann, "b")
		w.queue(bob, "a")
		var g waitGraph
		w.until("the cycle is seen", func() bool { w.get("/v1/graph", &g, nil); return len(g.Cycles) == 1 })
		if fmt.Sprint(g.Cycles) != "[[{a ann} {b bob}]]" {
			t.Errorf("got %v", g.Cycles)
		}
		// A lock whose holder waits is part of the picture; its name explains nothing else.
		if len(g.Locks) != 3 || g.Locks[0].Lock != "a" || g.Locks[2].Lock != "unrelated" || g.LeftOut != 0 {
			t.Errorf("got %+v", g.Locks)
		}
		var list sessionList
		w.get("/v1/sessions?text=ann", &list, nil)
		if list.Total != 1 || list.Sessions[0].Held != 2 || fmt.Sprint(list.Sessions[0].WaitsFor) != "[b]" || list.Sessions[0].EndsInMS <= 0 {
			t.Errorf("got %+v", list)
		}
	})
}

// TestGraphIsBounded: a store full of contended locks gives a picture that can be drawn,
// with all deadlocks in it.
func TestGraphIsBounded(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	w := newWorld(t, store, nil)
	ann, c := client(t, store, &fencelock.Options{Owner: "ann"}), client(t, store, &fencelock.Options{Owner: "crowd"})
	for i := range maxGraph + 20 {
		name := fmt.Sprintf("crowd/%03d", i)
		w.holdWith(ann, name)
		w.queue(c, name)
	}
	w.hold("self", "zz")
	w.queue(client(t, store, &fencelock.Options{Owner: "self"}), "zz")
	var g waitGraph
	w.until("all wait", func() bool { w.get("/v1/graph", &g, nil); return g.LeftOut+len(g.Locks) == maxGraph+21 })
	if len(g.Locks) != maxGraph || g.Locks[0].Lock != "zz" {
		t.Errorf("%d locks, the first is %s", len(g.Locks), g.Locks[0].Lock)
	}
}

// TestStoreHealth: readiness follows the store, health does not, what was read before stays, marked with the
// error, and the log has one line for the beginning of an outage and one for its end.
func TestStoreHealth(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	logged := make(lines, 100)
	w := newWorld(t, onRedis(t, redis), func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(logged, nil)) })
	w.hold("ann", "a")
	w.until("it is ready", func() bool { return w.get("/readyz", nil, nil) == http.StatusOK && w.list("").Total == 1 })
	var h storeHealth
	w.until("it is checked", func() bool { w.get("/v1/store", &h, nil); return h.CheckedAt != nil })
	if !h.Poll.Answers || h.Server != "redis" || h.Guarantees.Fencing != "strict" || len(h.Promises) < 5 || len(h.Findings) == 0 {
		t.Errorf("got %+v", h)
	}
	rewind, err := redis.Checkpoint()
	must.OK(t, err)
	redis.Kill()
	w.until("it is not ready", func() bool { return w.get("/readyz", nil, nil) == http.StatusServiceUnavailable })
	if status := w.get("/healthz", nil, nil); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
	if l := w.list(""); l.Total != 1 || l.Error == "" {
		t.Errorf("got %+v", l)
	}
	w.get("/v1/store", &h, nil)
	if h.Poll.Answers || h.Poll.Error == "" || h.Poll.Since == nil {
		t.Errorf("got %+v", h.Poll)
	}
	must.OK(t, rewind())
	w.until("it is ready again", func() bool { return w.get("/readyz", nil, nil) == http.StatusOK })
	for _, want := range []string{`msg="the store does not answer" error=`, `msg="the store answers again" after=`} {
		select {
		case line := <-logged:
			if !strings.Contains(line, want) {
				t.Errorf("logged %q, want %s", line, want)
			}
		case <-time.After(patience):
			t.Fatalf("not logged: %s", want)
		}
	}
}

// lines are what a logger writes.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestStoreWithoutListing: a store that cannot list is not listed, and locks are found by
// name.
func TestStoreWithoutListing(t *testing.T) {
	t.Parallel()
	store := unlisted{memstore.New(nil)}
	w := newWorld(t, store, nil)
	w.hold("ann", "a")
	var p problem
	if status := w.get("/v1/locks", &p, nil); status != http.StatusNotImplemented || p.Code != "listing" {
		t.Errorf("got %d, %+v", status, p)
	}
	var d lockDetail
	if w.get("/v1/lock?name=a", &d, nil); len(d.Holders) != 1 {
		t.Errorf("got %+v", d)
	}
	w.until("it is ready", func() bool { return w.get("/readyz", nil, nil) == http.StatusOK })
}

type unlisted struct{ driver.Store }

func (u unlisted) Caps() driver.Caps {
	caps := u.Store.Caps()
	caps.Listing = false
	return caps
}
