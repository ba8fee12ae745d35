// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore"
)

// world is a server on a store, with clients that use its locks.
type world struct {
	*testing.T
	store  driver.Store
	server *Server
	web    *httptest.Server
	stop   func() // ends Run, and with it the streams
}

// patience is how long a call or a stream may take before its test fails: far more than it needs.
const patience = time.Minute

// unlimited is for tests that measure something else.
func unlimited(cfg *Config) {
	cfg.limits = newLimits()
	cfg.limits.reads, cfg.limits.locks = newLimiter(1e9, 1e9), newLimiter(1e9, 1e9)
}

// newWorld starts a server on a store. change may be nil.
func newWorld(t *testing.T, store driver.Store, change func(*Config)) *world {
	t.Helper()
	log, err := audit.Open("", nil)
	must.OK(t, err)
	locks := client(t, store, &fencelock.Options{TTL: 12 * time.Second, LocalHandoff: -1})
	cfg := Config{Client: client(t, store, nil), Locks: locks, Store: store, Every: 100 * time.Millisecond, Timeout: 10 * time.Second,
		Audit: log, Logger: slog.New(slog.DiscardHandler), Version: "test"}
	if change != nil {
		change(&cfg)
	}
	s := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	web := httptest.NewUnstartedServer(nil)
	web.Config = s.HTTP()
	web.Start()
	stop := func() { cancel(); <-ended }
	t.Cleanup(func() { stop(); web.Close() })
	return &world{t, store, s, web, stop}
}

// client is a client that stands for another process, closed at the end of the test.
func client(t *testing.T, store driver.Store, opts *fencelock.Options) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(store, opts)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// onStores runs a test on a store in memory and on Redis.
func onStores(t *testing.T, test func(t *testing.T, store driver.Store)) {
	t.Run("memory", func(t *testing.T) { t.Parallel(); test(t, memstore.New(nil)) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, onRedis(t, startRedis(t))) })
}

func startRedis(t *testing.T) *servers.RedisServer {
	return servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
}

func onRedis(t *testing.T, s *servers.RedisServer) driver.Store {
	t.Helper()
	return storeAt(t, s.Addr)
}

func storeAt(t *testing.T, addr string) driver.Store {
	t.Helper()
	store, err := redisstore.Open(t.Context(), "redis://"+addr, nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// until waits for something that the server will show.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	must.OK(w, servers.Await(what, ok))
}

// hold acquires locks as an owner.
func (w *world) hold(owner string, names ...string) []*fencelock.Lease {
	w.Helper()
	c := client(w.T, w.store, &fencelock.Options{Owner: owner})
	return w.holdWith(c, names...)
}

func (w *world) holdWith(c *fencelock.Client, names ...string) []*fencelock.Lease {
	w.Helper()
	var leases []*fencelock.Lease
	for _, name := range names {
		l, err := c.Mutex(name, fencelock.Reason("because of "+name)).Lock(w.Context())
		must.OK(w, err)
		leases = append(leases, l)
	}
	return leases
}

// queue makes a client wait for a lock until the test ends.
func (w *world) queue(c *fencelock.Client, name string) {
	go func() {
		if l, err := c.Mutex(name).Lock(w.Context()); err == nil {
			_ = l.Unlock(context.Background())
		}
	}()
}

// get fetches a path into v and returns the status. change may be nil.
func (w *world) get(path string, v any, change func(*http.Request)) int {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), "GET", w.web.URL+path, nil)
	must.OK(w, err)
	if change != nil {
		change(req)
	}
	return w.do(req, v)
}

func (w *world) do(req *http.Request, v any) int {
	w.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), patience)
	defer cancel()
	resp, err := w.web.Client().Do(req.WithContext(ctx))
	must.OK(w, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.OK(w, err)
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			w.Fatalf("%s: %v in %s", req.URL, err, text)
		}
	}
	return resp.StatusCode
}

// list fetches a list that must succeed.
func (w *world) list(query string) (l lockList) {
	w.Helper()
	if status := w.get("/v1/locks"+query, &l, nil); status != http.StatusOK {
		w.Fatalf("%s: status %d", query, status)
	}
	return l
}
