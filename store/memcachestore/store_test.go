// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memcachestore"
)

// startMemcached starts a server that ends with the test.
func startMemcached(t testing.TB, args ...string) *servers.MemcachedServer {
	t.Helper()
	return servers.Test(t, func() (*servers.MemcachedServer, error) { return servers.Memcached(args...) })
}

// stats returns the server's counters.
func stats(t testing.TB, server *servers.MemcachedServer) map[string]int64 {
	t.Helper()
	counters, err := server.Stats()
	if err != nil || len(counters) == 0 {
		t.Fatalf("%d counters, %v", len(counters), err)
	}
	return counters
}

// storeOn returns a store on the server.
func storeOn(t testing.TB, server *servers.MemcachedServer, opts *memcachestore.Options) *memcachestore.Store {
	t.Helper()
	store, err := memcachestore.New(server.Addr, opts)
	must.OK(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

func TestCorrectnessIsRefused(t *testing.T) {
	store, err := memcachestore.New("127.0.0.1:1", nil)
	must.OK(t, err)
	_, err = fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	if !errors.Is(err, fencelock.ErrUnsupported) || !strings.Contains(err.Error(), "for efficiency only") {
		t.Errorf("got %v, want a refusal that says what memcached is for", err)
	}
	locks, err := fencelock.New(store, nil)
	must.OK(t, err)
	if words := locks.Guarantees().String(); !strings.Contains(words, "There are no tokens to check") {
		t.Errorf("the guarantees do not say that there are no tokens:\n%s", words)
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	for want, f := range map[string]func() (*memcachestore.Store, error){
		"host:port": func() (*memcachestore.Store, error) { return memcachestore.New("a,b", nil) },
		"Namespace": func() (*memcachestore.Store, error) {
			return memcachestore.New("a:1", &memcachestore.Options{Namespace: "a b"})
		},
		"negative": func() (*memcachestore.Store, error) {
			return memcachestore.New("a:1", &memcachestore.Options{Timeout: -1})
		},
		"begin with": func() (*memcachestore.Store, error) { return memcachestore.Open(t.Context(), "redis://a", nil) },
		"one host": func() (*memcachestore.Store, error) {
			return memcachestore.Open(t.Context(), "memcached://a/path", nil)
		},
		"has a user": func() (*memcachestore.Store, error) { return memcachestore.Open(t.Context(), "memcached://u:p@a", nil) },
		"unknown":    func() (*memcachestore.Store, error) { return memcachestore.Open(t.Context(), "memcached://a?x=1", nil) },
		"500ms or 30s": func() (*memcachestore.Store, error) {
			return memcachestore.Open(t.Context(), "memcached://a?timeout=5", nil)
		},
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestOpenByURL(t *testing.T) {
	server := startMemcached(t)
	store, err := memcachestore.Open(t.Context(), "memcached://"+server.Addr+"?namespace=orders&timeout=2s&idle=4", nil)
	must.OK(t, err)
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	must.OK(t, err)
	defer locks.Close(t.Context())
	l, err := locks.Mutex("x").Lock(t.Context())
	must.OK(t, err)
	if l.Token() != 0 {
		t.Errorf("the lease has token %v, want none", l.Token())
	}
	if _, err := storeOn(t, server, &memcachestore.Options{Namespace: "orders"}).Inspect(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	server.Kill()
	if _, err := memcachestore.Open(t.Context(), "memcached://"+server.Addr, nil); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("open without a server: got %v, want ErrUnavailable", err)
	}
}

// TestRestartIsALoss: a server that restarts has lost all its data, and the holder is
// notified.
func TestRestartIsALoss(t *testing.T) {
	server := startMemcached(t)
	locks, err := fencelock.New(storeOn(t, server, nil), &fencelock.Options{TTL: 12 * time.Second})
	must.OK(t, err)
	defer locks.Close(context.Background())
	l, err := locks.Mutex("x").Lock(t.Context())
	must.OK(t, err)
	must.OK(t, server.Restart())
	select {
	case <-l.Context().Done():
		if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrLost) || !errors.Is(err, fencelock.LossSessionEnded) {
			t.Errorf("got %v, want ErrLost with LossSessionEnded: a heartbeat finds it, not the deadline", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the holder was not notified")
	}
}

// TestOneHeartbeatCarriesEveryLease counts at the server.
func TestOneHeartbeatCarriesEveryLease(t *testing.T) {
	const leases = 1000
	server := startMemcached(t)
	store := storeOn(t, server, nil)
	ses, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	for i := range leases {
		out, err := ses.Attempt(t.Context(), &driver.Claim{Seq: uint64(i + 1), Name: fmt.Sprint("n", i), Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		if err != nil || out.State != driver.Granted {
			t.Fatalf("got %v, %v", out, err)
		}
	}
	before := stats(t, server)
	if _, err := ses.KeepAlive(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := stats(t, server)
	for _, cmd := range []string{"cmd_get", "cmd_set"} {
		if after[cmd] != before[cmd] {
			t.Errorf("%s went from %d to %d by one heartbeat for %d leases", cmd, before[cmd], after[cmd], leases)
		}
	}
	if got := after["cmd_touch"] - before["cmd_touch"]; got != 1 {
		t.Errorf("one heartbeat was %d touches at the server, want 1", got)
	}
}

// TestForeignItemIsLeftAlone: an item that another program keeps under our key is not
// overwritten.
func TestForeignItemIsLeftAlone(t *testing.T) {
	server := startMemcached(t)
	store := storeOn(t, server, nil)
	id := driver.NewSessionID()
	client := memcache.New(server.Addr)
	defer client.Close()
	must.OK(t, client.Set(&memcache.Item{Key: "fencelock:s:" + id.String(), Value: []byte("not JSON")}))
	_, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: time.Second})
	if err == nil || !strings.Contains(err.Error(), "Options.Namespace") {
		t.Errorf("got %v, want an error that names the option", err)
	}
}

func TestCheckWarnsOfEviction(t *testing.T) {
	codes := func(s *servers.MemcachedServer) []string {
		t.Helper()
		found, err := storeOn(t, s, nil).Check(t.Context())
		must.OK(t, err)
		var codes []string
		for _, f := range found {
			codes = append(codes, f.Severity.String()+" "+f.Code)
			if f.Node != s.Addr || f.Reason == "" || f.Fix == "" || !strings.Contains(f.String(), f.Code) {
				t.Errorf("finding %+v says too little", f)
			}
		}
		return codes
	}
	if got, want := codes(startMemcached(t)), []string{"note efficiency-only", "warning eviction"}; !slices.Equal(got, want) {
		t.Errorf("a fresh server: got %q, want %q", got, want)
	}
	if got, want := codes(startMemcached(t, "-M")), []string{"note efficiency-only", "note no-eviction"}; !slices.Equal(got, want) {
		t.Errorf("a server that does not evict: got %q, want %q", got, want)
	}
	if got := codes(startMemcached(t, "-C")); !slices.Contains(got, "danger cas") {
		t.Errorf("a server without cas: got %q, want danger cas", got)
	}
	small := startMemcached(t, "-m", "2")
	client := memcache.New(small.Addr)
	defer client.Close()
	for i := range 40 {
		must.OK(t, client.Set(&memcache.Item{Key: fmt.Sprint("big", i), Value: make([]byte, 200_000)}))
	}
	if got, want := codes(small), []string{"note efficiency-only", "danger evicted"}; !slices.Equal(got, want) {
		t.Errorf("a server that has evicted: got %q, want %q", got, want)
	}
}

// TestKeepAliveOfAForeignItem: a keep-alive that finds what another program wrote decides
// nothing about the session: no other process can take its locks, and they go on until the deadline.
func TestKeepAliveOfAForeignItem(t *testing.T) {
	server := startMemcached(t)
	store := storeOn(t, server, nil)
	id := driver.NewSessionID()
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: time.Minute})
	must.OK(t, err)
	client := memcache.New(server.Addr)
	must.OK(t, client.Set(&memcache.Item{Key: "fencelock:s:" + id.String(), Value: []byte("foreign")}))
	if _, err := s.KeepAlive(t.Context()); err == nil || errors.Is(err, driver.ErrGone) || !strings.Contains(err.Error(), "was not written by this store") {
		t.Errorf("got %v, want an error that names the cause and ends nothing", err)
	}
}
