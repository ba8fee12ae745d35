// SPDX-License-Identifier: Apache-2.0

// Package redistest gives Redis and Valkey servers of package servers to tests, and does
// to them what the tests of the store need.
package redistest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// How long a server of a set may be silent before the others take it for down.
const (
	// Soon is for tests of failovers. A sentinel connects at most once a second, so
	// that less makes every switch the next.
	Soon = 1500 * time.Millisecond
	// Never is for tests that pause and restart servers and need that no replica takes over.
	Never = 10 * time.Minute
)

// MasterName is what sentinels call the master.
const MasterName = servers.MasterName

// Flavor is a kind of server.
type Flavor servers.Flavor

// The flavors.
const (
	Redis  = Flavor(servers.Redis)
	Valkey = Flavor(servers.Valkey)
)

// Flavors are those that everything is tested on.
var Flavors = []Flavor{Redis, Valkey}

// Installed reports whether the server is installed.
func (f Flavor) Installed() bool { return servers.Flavor(f).Need() == nil }

// Need skips the test if the server is not installed.
func (f Flavor) Need(t testing.TB) {
	t.Helper()
	if err := servers.Flavor(f).Need(); err != nil {
		t.Skip(err)
	}
}

// Server is a running server.
type Server struct {
	*servers.RedisServer
	t testing.TB
}

// Start is Flavor.Start of Redis.
func Start(t testing.TB, args ...string) *Server { t.Helper(); return Redis.Start(t, args...) }

// Start starts a server without persistence that ends with the test. args are further
// arguments of its command line.
func (f Flavor) Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return &Server{t: t, RedisServer: servers.Test(t, func() (*servers.RedisServer, error) { return servers.Flavor(f).Start(args...) })}
}

// StartStepped is Start for a server whose wall clock can be set while it runs.
func StartStepped(t testing.TB) *Server {
	t.Helper()
	return &Server{t: t, RedisServer: servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.StartClocked() })}
}

// StartTLS starts a server that requires a certificate from its clients.
func StartTLS(t testing.TB) *servers.SecureRedis {
	t.Helper()
	return servers.Test(t, func() (*servers.SecureRedis, error) { return servers.Redis.StartTLS() })
}

// ClusterNode are the arguments of a node of a cluster.
func ClusterNode(t testing.TB) []string {
	t.Helper()
	args, _, err := servers.ClusterNode()
	must(t, err)
	return args
}

// Restart kills the server and starts it again on the same port.
func (s *Server) Restart() { s.t.Helper(); must(s.t, s.RedisServer.Restart()) }

// SetClock sets how far the clock of a server that was started stepped is ahead.
func (s *Server) SetClock(ahead time.Duration) { s.t.Helper(); must(s.t, s.Clock().Set(ahead)) }

// Copy notes what the server has written to disk. The returned function kills the server
// and starts it again from that older state, as after a crash that lost what came later.
func (s *Server) Copy() (rewind func()) {
	s.t.Helper()
	copied := filepath.Join(s.t.TempDir(), "copy")
	must(s.t, os.CopyFS(copied, os.DirFS(s.Dir())))
	return func() {
		s.t.Helper()
		s.Kill()
		must(s.t, s.Wipe())
		must(s.t, os.CopyFS(s.Dir(), os.DirFS(copied)))
		must(s.t, s.Start())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
