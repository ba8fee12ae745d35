// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// TestUserOfAFewLocksLearnsNothingOfTheServers: findings and the texts of errors have addresses
// and settings, and only a user that may see all locks gets them.
func TestUserOfAFewLocksLearnsNothingOfTheServers(t *testing.T) {
	t.Parallel()
	tokens, text := map[string]string{}, ""
	for name, prefix := range map[string]string{"all": "", "few": "orders/"} {
		token, hash := access.NewToken()
		tokens[name] = token
		text += fmt.Sprintf(`,{"name":%q,"tokens":[%q],"rights":[{"prefix":%q,"may":["see"]}]}`, name, hash, prefix)
	}
	policy, err := access.Parse([]byte(`{"users":[` + text[1:] + `]}`))
	must.OK(t, err)
	redis := startRedis(t)
	w := newWorld(t, onRedis(t, redis), func(cfg *Config) { cfg.Policy = func() *access.Policy { return policy } })
	w.until("the store is polled and checked", func() bool {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		return w.server.poller.Now().Snapshot != nil && !w.server.checked.IsZero()
	})
	w.server.mu.Lock()
	w.server.findings = []driver.Finding{{}}
	w.server.mu.Unlock()
	redis.Kill()
	w.until("the store is unreachable", func() bool { return w.server.poller.Now().Err != nil })
	for name, all := range map[string]bool{"all": true, "few": false} {
		as := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokens[name]) }
		var h storeHealth
		w.get("/v1/store", &h, as)
		if h.Poll.Answers || h.Poll.Since == nil || (len(h.Findings) > 0) != all || (h.CheckedAt != nil) != all {
			t.Errorf("%s: got %+v", name, h)
		}
		var l lockList
		w.get("/v1/locks", &l, as)
		for what, got := range map[string]string{"store": h.Poll.Error, "list": l.Error, "event": w.watch("", as).next().data} {
			if strings.Contains(got, redis.Addr) != all || got == "" {
				t.Errorf("%s, %s: got %q", name, what, got)
			}
		}
	}
}

// TestCallsInFlightOfAUserAreBounded: a user with many open calls is rejected, others are not.
func TestCallsInFlightOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for range maxUserCalls {
		g.server.userCalls.enter("viewer", maxUserCalls)
	}
	if status := g.get("/v1/locks", nil, g.as("viewer")); status != http.StatusTooManyRequests {
		t.Errorf("status %d", status)
	}
	if status := g.get("/v1/locks", nil, g.as("admin")); status != http.StatusOK {
		t.Errorf("another user: status %d", status)
	}
	g.server.userCalls.leave("viewer")
	for range 3 { // a call that is answered is not counted any more
		if status := g.get("/v1/locks", nil, g.as("viewer")); status != http.StatusOK {
			t.Errorf("after one has ended: status %d", status)
		}
	}
}

// TestGraphIsComputedOnceForASnapshot: callers with the same view share a graph, and no other.
func TestGraphIsComputedOnceForASnapshot(t *testing.T) {
	t.Parallel()
	var g graphs
	var made []string
	for _, of := range []struct {
		revision uint64
		scope    string
	}{{1, "a"}, {1, "a"}, {1, "b"}, {1, "a"}, {2, "a"}, {2, "a"}} {
		want := fmt.Sprint(of)
		got := g.of(of.revision, of.scope, func() waitGraph {
			made = append(made, want)
			return waitGraph{Locks: []graphLock{{Lock: want}}}
		})
		if got.Locks[0].Lock != want {
			t.Errorf("%s got the graph of %s", want, got.Locks[0].Lock)
		}
	}
	if len(made) != 3 {
		t.Errorf("computed %v", made)
	}
}
