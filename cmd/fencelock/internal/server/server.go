// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/metrics"
	"github.com/fencelock/fencelock/driver"
)

// Config is what a server needs.
type Config struct {
	Client *fencelock.Client
	Store  driver.Store
	// Locks takes the locks of clients. It must not be closed before the process ends: the
	// clients trust their leases, and continue them at another server.
	Locks *fencelock.Client
	// GraceFix is how to make the store keep locks over a data loss, "" if it cannot.
	GraceFix string
	// Every is how often the store is polled.
	Every time.Duration
	// Timeout is how long a call to the store may take.
	Timeout time.Duration
	// Policy returns the users. Nil means that every caller is access.Local, which is safe
	// only on a loopback address.
	Policy func() *access.Policy
	// Watches are the locks that have metrics.
	Watches []metrics.Watch
	Audit   *audit.Log
	Logger  *slog.Logger
	Version string
	// limits are set by tests.
	limits *limits
}

// Server is the handler with what it shares between requests.
type Server struct {
	cfg     Config
	poller  lockfeed.Poller
	routes  map[string]map[string]*route // by path and method
	limits  *limits
	streams atomic.Int64
	// sums are those of the watches, for all scrapes of a snapshot.
	sums metrics.Sums
	// userStreams are the open streams of each user.
	userStreams inFlight
	// userCalls are the calls of each user that are not answered yet.
	userCalls inFlight
	// userWaits are those that take locks.
	userWaits inFlight
	leases    *leases.Leases
	boot      string // names this process in the ids of events
	origins   *http.CrossOriginProtection
	closing   chan struct{}
	graphs    graphs

	mu       sync.Mutex
	findings []driver.Finding
	checked  time.Time
}

// New makes a server. Run must run while it is used.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, routes: map[string]map[string]*route{}, limits: cfg.limits, boot: randomID(),
		origins: http.NewCrossOriginProtection(), closing: make(chan struct{})}
	if s.limits == nil {
		s.limits = newLimits()
	}
	caps := cfg.Store.Caps()
	s.leases = leases.New(cfg.Locks, caps.Reentry && caps.Fencing != driver.NoFencing, s.closing) // the token shows whether a grant is the same
	s.poller.Client, s.poller.Logger, s.poller.Every, s.poller.Lists = cfg.Client, cfg.Logger, cfg.Every, caps.Listing
	for _, r := range append(apiRoutes(), staticRoutes()...) {
		if s.routes[r.path] == nil {
			s.routes[r.path] = map[string]*route{}
		}
		s.routes[r.path][r.method] = r
	}
	return s
}

// checkEvery is how often the servers of the store are checked.
const checkEvery = time.Minute

// Run polls and checks the store until ctx ends, and then ends all streams.
func (s *Server) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { s.poller.Run(ctx) })
	running.Go(func() { s.noteDeniedEvery(ctx) })
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.check(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	close(s.closing)
	running.Wait()
}

// noteDeniedEvery writes denials that share a line when they have stopped, too.
func (s *Server) noteDeniedEvery(ctx context.Context) {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.noteDenied(now, false)
		case <-ctx.Done():
			return
		}
	}
}

// Unlocked waits until the store has answered the unlocks that no call waits for, or ctx ends.
func (s *Server) Unlocked(ctx context.Context) {
	if left := s.leases.Unlocked(ctx); left > 0 {
		s.cfg.Logger.Warn("the store has not confirmed every unlock; these locks are free after --lock-ttl", "locks", left)
	}
}

func (s *Server) check(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, 4*s.cfg.Timeout)
	defer cancel()
	found := lockview.Findings(call, s.cfg.Store, s.cfg.Client.Guarantees(), s.cfg.GraceFix, false)
	lockview.PlainFindings(found)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings, s.checked = found, time.Now()
}

// HTTP returns the server of the standard library with bounds on what a slow or hostile
// client can use up.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // streams move it
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}
