// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// slowUnlocks is a store whose withdrawals wait.
type slowUnlocks struct {
	driver.Store
	once        sync.Once
	begun, pass chan struct{}
}

func (s *slowUnlocks) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	session, renewal, err := s.Store.Open(ctx, req)
	return &slowSession{session, s}, renewal, err
}

type slowSession struct {
	driver.Session
	store *slowUnlocks
}

func (s *slowSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	s.store.once.Do(func() { close(s.store.begun) })
	<-s.store.pass
	return s.Session.Withdraw(context.WithoutCancel(ctx), w)
}

// closed reports whether a channel is closed, without waiting for it.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestServeCountsDeniedCallsAtItsEnd: calls that share a line of the audit log are in it when the server has ended.
func TestServeCountsDeniedCallsAtItsEnd(t *testing.T) {
	t.Parallel()
	const calls = 40
	s, log, users := startRedis(t), filepath.Join(t.TempDir(), "audit.log"), filepath.Join(t.TempDir(), "users.json")
	fencelockCLI(t, s.url(), "serve", "token", "ann", "--may", "see", "--users", users).want(0)
	p, url := serving(t, s, "--users", users, "--audit", log)
	for range calls {
		if status := as(t, "fl_wrong", url+"/v1/locks"); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
			t.Errorf("status %d", status)
		}
	}
	must.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.end()
	text, err := os.ReadFile(log)
	must.OK(t, err)
	logged, lines := 0, 0
	for line := range strings.Lines(string(text)) {
		var e audit.Entry
		must.OK(t, json.Unmarshal([]byte(line), &e))
		lines++
		logged += 1 + e.More
	}
	if logged != calls || lines == calls {
		t.Errorf("%d of %d denied calls are logged, in %d lines:\n%s", logged, calls, lines, text)
	}
}

// TestServeWaitsForUnlocksAtItsEnd: a lock whose client went away is given back in the background. A server that ends
// at that moment waits for the store: otherwise the lock stays taken for --lock-ttl.
func TestServeWaitsForUnlocksAtItsEnd(t *testing.T) {
	t.Parallel()
	store := &slowUnlocks{Store: memstore.New(nil), begun: make(chan struct{}), pass: make(chan struct{})}
	token, hash := access.NewToken()
	policy, err := access.Parse(fmt.Appendf(nil, `{"users":[{"name":"ann","tokens":[%q],"rights":[{"prefix":"","may":["take"]}]}]}`, hash))
	must.OK(t, err)
	logger := slog.New(slog.DiscardHandler)
	log, err := audit.Open("", logger)
	must.OK(t, err)
	cfg := server.Config{Store: store, Every: time.Second, Timeout: patience, Policy: func() *access.Policy { return policy }, Audit: log, Logger: logger}
	for _, client := range []**fencelock.Client{&cfg.Client, &cfg.Locks} {
		if *client, err = fencelock.New(store, &fencelock.Options{TTL: patience, CallTimeout: patience, LocalHandoff: -1}); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, server.New(cfg), listener) }()

	ann := newAPIClient("http://"+listener.Addr().String(), token, 4*time.Second)
	must.OK(t, ann.open())
	if _, err := ann.lock("1", "deploy"); err != nil {
		t.Fatal(err)
	}
	until(t, "the server unlocks, because ann does not renew", func() bool { return closed(store.begun) })
	end()
	select {
	case err := <-ended:
		t.Fatalf("the server ended before the store had answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(store.pass)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the server has not ended after the store had answered")
	}
	if st, err := store.Inspect(t.Context(), "deploy"); err != nil || len(st.Holders) > 0 {
		t.Errorf("%+v, %v", st, err)
	}
}
