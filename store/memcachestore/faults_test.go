// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memcachestore"
)

func openOn(t *testing.T, ctx context.Context, store *memcachestore.Store) driver.Session {
	t.Helper()
	s, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
	must.OK(t, err)
	return s
}

func claim(seq uint64) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
}

// TestServerWithoutCasIsRefused: on a server that runs with -C nothing is granted, because
// nothing could be given back. Before, Unlock asked again and again until its context ended.
func TestServerWithoutCasIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := openOn(t, ctx, storeOn(t, startMemcached(t, "-C"), nil))
	if _, err := s.Attempt(ctx, claim(1)); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "without -C") {
		t.Errorf("got %v, want a refusal that names -C", err)
	}
}

// TestStandstill: a call to a server that stands still ends with its context, and what it may
// have done later does not come back after it was withdrawn.
func TestStandstill(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := startMemcached(t)
	store := storeOn(t, server, nil)
	a, b := openOn(t, ctx, store), openOn(t, ctx, store)
	resume := server.Pause()
	bounded, end := context.WithTimeout(ctx, time.Second) // the attempt must have been sent by then
	_, err1 := a.Attempt(bounded, claim(1))
	_, err2 := a.KeepAlive(bounded)
	end()
	resume()
	if !errors.Is(err1, driver.ErrUnknown) || !errors.Is(err1, context.DeadlineExceeded) {
		t.Errorf("an attempt: %v, want ErrUnknown and the end of its context", err1)
	}
	if !errors.Is(err2, context.DeadlineExceeded) {
		t.Errorf("a keep-alive: %v, want the end of its context", err2)
	}
	if _, err := a.Withdraw(ctx, driver.Withdrawal{Name: "x", Seq: 1, Tombstone: true}); err != nil {
		t.Fatal(err)
	}
	if out, err := b.Attempt(ctx, claim(1)); err != nil || out.State != driver.Granted {
		t.Errorf("another session after the withdrawal: %v, %v", out.State, err)
	}
	if _, err := a.KeepAlive(ctx); err != nil {
		t.Errorf("the session after the standstill: %v", err)
	}
}

// TestEvictedSessionIsGone: a session whose item was evicted ends with its next keep-alive, and
// its lock is free.
func TestEvictedSessionIsGone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := startMemcached(t, "-m", "2")
	store := storeOn(t, server, nil)
	a := openOn(t, ctx, store)
	if out, err := a.Attempt(ctx, claim(1)); err != nil || out.State != driver.Granted {
		t.Fatalf("got %v, %v", out.State, err)
	}
	for round := 0; ; round++ {
		fill(t, server, round)
		_, err := a.KeepAlive(ctx)
		if errors.Is(err, driver.ErrGone) {
			break
		}
		if err != nil || round == 20 {
			t.Fatalf("the session survives, %v", err)
		}
	}
	if out, err := openOn(t, ctx, store).Attempt(ctx, claim(1)); err != nil || out.State != driver.Granted {
		t.Errorf("another session: %v, %v", out.State, err)
	}
}

// fill writes 4 MB of items as large as a session's.
func fill(t *testing.T, server *servers.MemcachedServer, round int) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr)
	must.OK(t, err)
	defer conn.Close()
	var all bytes.Buffer
	for size := range 3 {
		value := strings.Repeat("x", 40+30*size)
		for i := range 10000 {
			fmt.Fprintf(&all, "set fill-%d-%d-%026d 0 0 %d noreply\r\n%s\r\n", round, size, i, len(value), value)
		}
	}
	all.WriteString("version\r\n")
	if _, err := conn.Write(all.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 100)); err != nil { // the server has taken them all
		t.Fatal(err)
	}
}

// TestUselessServer: a server that will never do what the store needs is a definite error.
func TestUselessServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for answer, want := range map[string]string{"CLIENT_ERROR unauthenticated\r\n": "does not support", "ERROR\r\n": "1.5.3"} {
		store, err := memcachestore.New(answering(t, answer), nil)
		must.OK(t, err)
		defer store.Close()
		_, _, err1 := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
		_, err2 := store.Inspect(ctx, "x")
		for _, err := range []error{err1, err2} {
			if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknown) {
				t.Errorf("%q: got %v, want a definite error with %q", answer, err, want)
			}
		}
	}
}

// answering is a server that has one answer.
func answering(t *testing.T, answer string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for buf := make([]byte, 4096); ; {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					if _, err := conn.Write([]byte(answer)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
