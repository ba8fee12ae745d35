// SPDX-License-Identifier: Apache-2.0

package server

import (
	_ "embed"
	"net/http"
	"strings"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/metrics"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
)

// storeHealth is what the store promises, and whether it answers.
type storeHealth struct {
	Server     string               `json:"server"`
	Program    string               `json:"program"`
	Guarantees *lockview.Guarantees `json:"guarantees"`
	// Promises are the guarantees in words.
	Promises []string `json:"promises"`
	// Findings are what is wrong with the servers; CheckedAt is when they were checked, and
	// missing until then. Both, and the grace period of all locks, are for callers that may
	// see all locks.
	Findings  []driver.Finding `json:"findings"`
	CheckedAt *time.Time       `json:"checked_at,omitempty"`
	Poll      pollHealth       `json:"poll"`
}

type pollHealth struct {
	Answers bool       `json:"answers"`
	Error   string     `json:"error,omitempty"`
	Since   *time.Time `json:"since,omitempty"` // when it stopped answering
	EveryMS int64      `json:"every_ms"`
	TookMS  float64    `json:"took_ms"`
	Lists   bool       `json:"lists"`
	Viewers int64      `json:"viewers"`
	GraceMS int64      `json:"grace_ms,omitempty"`
}

func (s *Server) store(w http.ResponseWriter, c *call) error {
	state := s.poller.Current(c.Context())
	g := s.cfg.Client.Guarantees()
	h := storeHealth{Server: g.Server, Program: s.cfg.Version, Guarantees: lockview.GuaranteesOf(g), Findings: []driver.Finding{},
		Poll: pollHealth{Answers: state.Err == nil && state.Snapshot != nil, EveryMS: s.cfg.Every.Milliseconds(),
			TookMS: float64(state.Took.Microseconds()) / 1000, Lists: s.poller.Lists, Viewers: s.streams.Load()}}
	for line := range strings.Lines(g.String()) {
		h.Promises = append(h.Promises, text.Plain(strings.TrimSpace(line)))
	}
	if state.Err != nil {
		h.Poll.Error, h.Poll.Since = c.storeError(state.Err), &state.Since
	}
	if !c.caller.Sees("") { // what follows is of all locks and servers
		return reply(w, h)
	}
	if state.Snapshot != nil {
		for i := range state.Snapshot.Locks {
			h.Poll.GraceMS = max(h.Poll.GraceMS, state.Snapshot.Locks[i].Grace.Milliseconds())
		}
	}
	s.mu.Lock()
	if checked := s.checked; !checked.IsZero() {
		h.Findings, h.CheckedAt = append(h.Findings, s.findings...), &checked
	}
	s.mu.Unlock()
	return reply(w, h)
}

// storeError is what a caller learns of an error of the store. Its text has addresses of
// servers and names of settings, which are not for a user of a few locks.
func (c *call) storeError(err error) string {
	if c.caller.Sees("") {
		return text.OneLine(err)
	}
	return lockfeed.NoAnswer
}

// me is who the caller is.
func (s *Server) me(w http.ResponseWriter, c *call) error {
	return reply(w, identity{c.caller, s.cfg.Policy != nil})
}

type identity struct {
	access.Caller
	// Known is set if the server has a file of users.
	Known bool `json:"known"`
}

type health struct {
	OK bool `json:"ok"`
}

// healthz answers while the process runs.
func (s *Server) healthz(w http.ResponseWriter, _ *call) error { return reply(w, health{true}) }

// readyz answers whether the store does.
func (s *Server) readyz(w http.ResponseWriter, _ *call) error {
	state := s.poller.Now()
	ready := state.Err == nil && state.Snapshot != nil
	w.Header().Set("Content-Type", "application/json")
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return reply(w, health{ready})
}

//go:embed openapi.yaml
var openapiText []byte

func (s *Server) openapi(w http.ResponseWriter, _ *call) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openapiText)
	return nil
}

// metrics answers a scrape of Prometheus from the last poll. It does not count as a viewer:
// a scrape must not make the server poll more often.
func (s *Server) metrics(w http.ResponseWriter, c *call) error {
	text := metrics.Text(&metrics.Input{Watches: s.cfg.Watches, Sums: &s.sums, State: s.poller.Now(), Polls: s.poller.Polls(), Lists: s.poller.Lists,
		Viewers: s.streams.Load(), Sees: c.caller.Sees, Now: time.Now()})
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
	return nil
}
