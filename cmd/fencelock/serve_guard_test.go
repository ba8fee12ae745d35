// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/fencelock/fencelock"
)

// guardedRow is a resource that a lock protects: a counter with a fence.
type guardedRow struct {
	Fence fencelock.Token
	Value int64
}

// guard is a server with resources that reject old tokens, and the judge of overlaps. A worker reads
// and writes in two steps, so that another one in between shows as a lost update.
type guard struct {
	*httptest.Server
	mu       sync.Mutex
	rows     map[string]*guardedRow
	writes   map[string]int // admitted, of each worker
	rejected int            // old tokens
	overlaps int            // lost updates: an old holder that was admitted
}

// guardCall is what a worker sends: to read if Write is not set.
type guardCall struct {
	Worker string          `json:"worker"`
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token,string"`
	Write  bool            `json:"write"`
	Value  int64           `json:"value"`
}

func newGuard(t testing.TB) *guard {
	g := &guard{rows: map[string]*guardedRow{}, writes: map[string]int{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c guardCall
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	value, ok := g.admit(c)
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusConflict)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": ok, "value": value})
}

// admit compares the token and does what it admits, in one step.
func (g *guard) admit(c guardCall) (int64, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	row := g.rows[c.Lock]
	if row == nil {
		row = &guardedRow{}
		g.rows[c.Lock] = row
	}
	if c.Token < row.Fence {
		g.rejected++
		return 0, false
	}
	row.Fence = c.Token
	if c.Write {
		if c.Value != row.Value+1 {
			g.overlaps++
		}
		row.Value = c.Value
		g.writes[c.Worker]++
	}
	return row.Value, true
}

// counts returns what happened so far.
func (g *guard) counts() (writes, rejected, overlaps int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.writes {
		writes += n
	}
	return writes, g.rejected, g.overlaps
}

// of counts the writes of a worker.
func (g *guard) of(worker string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes[worker]
}
