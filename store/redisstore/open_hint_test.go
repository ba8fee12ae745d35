// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// wantHint fails unless a URL cannot be opened, with an error that has all of these.
func wantHint(t *testing.T, url string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := redisstore.Open(ctx, url, nil)
	if err == nil {
		_ = s.Close()
		t.Errorf("%s: it opened", url)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: got %v, want it to say %q", url, err, w)
		}
	}
}

// TestOpenHints: an error of Open names what is probably wrong with the URL.
func TestOpenHints(t *testing.T) {
	t.Parallel()
	s := redistest.Redis.StartSentinels(t, time.Minute)
	sentinel := s.Addrs[0]
	wantHint(t, "redis://"+sentinel, "it is a Sentinel", "redis-sentinel://"+sentinel+"/NAME")
	if _, err := redisstore.Open(t.Context(), "redis://"+sentinel, nil); err == nil || strings.Contains(err.Error(), "accept=") {
		t.Errorf("got %v, want no offer to accept a Sentinel: it keeps no locks", err)
	}
	wantHint(t, "redis-sentinel://"+sentinel+"/nobody", `no master "nobody"`, "they know "+redistest.MasterName)
	wantHint(t, "redis://"+redistest.StartTLS(t).Addr, "write rediss://")
	plain := redistest.Redis.Start(t).Addr
	wantHint(t, "rediss://"+plain+"?dial_timeout=2s", "write redis://")
	evicting := redistest.Redis.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	wantHint(t, "redis://"+evicting.Addr+"?grace=true", "add accept=eviction to the URL")
}

// TestSentinelNodeHasAName: findings about a server behind Sentinel name it.
func TestSentinelNodeHasAName(t *testing.T) {
	t.Parallel()
	s := redistest.Redis.StartSentinels(t, time.Minute)
	store, err := redisstore.FromURL("redis-sentinel://"+s.Addrs[0]+"/"+redistest.MasterName, nil)
	must.OK(t, err)
	defer store.Close()
	findings, err := store.Check(t.Context())
	if err != nil || len(findings) == 0 {
		t.Fatalf("got %v, %v, want a finding about replicas", findings, err)
	}
	for _, f := range findings {
		if f.Node != "master "+redistest.MasterName {
			t.Errorf("the node is called %q", f.Node)
		}
		if strings.Contains(f.Reason, "1 replicas") {
			t.Error(f.Reason)
		}
	}
}

// TestNothingListens: at a port where nothing listens the outcome is not unknown, and the
// error has the reason, even for a caller with a short deadline.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	gone := redistest.Redis.Start(t)
	gone.Kill()
	store := libraries[0].open(t, login{Addr: gone.Addr}, nil).Store
	open := func(hurry time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), hurry)
		defer cancel()
		_, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 6 * time.Second})
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknown) {
			t.Errorf("within %v: got %v, want it unavailable", hurry, err)
		}
		return err
	}
	if err := open(time.Minute); !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want the reason", err)
	}
	// The store reports the reason that it found to the next caller, which waits less long.
	if err := open(10 * time.Millisecond); !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("in a hurry: got %v, want the reason", err)
	}
}

// TestOpenAtAClosedPortInAHurry: the client dials again until the time is over, and the
// reason must not be lost by that.
func TestOpenAtAClosedPortInAHurry(t *testing.T) {
	t.Parallel()
	gone := redistest.Redis.Start(t)
	gone.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := redisstore.Open(ctx, "redis://"+gone.Addr, nil)
	if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, fencelock.ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, driver.ErrUnknown) {
		t.Errorf("got %v, want a refused connection", err)
	}
}
