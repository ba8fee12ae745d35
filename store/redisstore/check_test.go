// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestCheck looks at real servers that are set up badly.
func TestCheck(t *testing.T) {
	t.Parallel()
	sound := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(sound.Port))
	redistest.WaitFor(t, "the replica follows", func() bool { return replica.Info("replication", "master_link_status") == "up" })
	needs := redistest.Start(t, "--repl-diskless-sync-delay", "0", "--min-replicas-to-write", "1")
	needed := redistest.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(needs.Port))
	redistest.WaitFor(t, "the other replica follows", func() bool { return needed.Info("replication", "master_link_status") == "up" })
	for _, tt := range []struct {
		name  string
		addr  string
		grace bool
		want  []string
	}{
		{"sound", redistest.Start(t).Addr, false, nil},
		{"evicts", redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").Addr, false, []string{"eviction"}},
		{"evicts others", redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl").Addr, false, nil},
		{"replicas", sound.Addr, false, []string{"replicas-without-grace"}},
		{"replicas and grace", sound.Addr, true, []string{"min-replicas"}},
		{"replicas that are needed, and grace", needs.Addr, true, []string{"spare-replica", "margin"}},
		{"replica", replica.Addr, true, []string{"replica"}},
		{"part of a cluster", redistest.Start(t, redistest.ClusterNode(t)...).Addr, false, []string{"cluster-client"}},
		{"two behind one address", spread(t, redistest.Start(t).Addr, redistest.Start(t).Addr), false, []string{"proxy"}},
	} {
		for _, lib := range libraries {
			t.Run(lib.name+"/"+tt.name, func(t *testing.T) {
				c := lib.open(t, login{Addr: tt.addr}, &redisstore.Options{Grace: tt.grace})
				findings, err := c.Check(t.Context())
				if got := codes(findings); err != nil || !slices.Equal(got, tt.want) {
					t.Errorf("got %v, %v, want %v", findings, err, tt.want)
				}
				for _, f := range findings {
					if f.Node == "" || !strings.HasPrefix(f.String(), f.Node) || f.Severity == driver.Note && f.Code != "spare-replica" {
						t.Errorf("%v: node or severity is wrong", f)
					}
				}
			})
		}
	}
}

// TestCheckFindsNoMarginForAReplacedMaster: with grace, max_ttl must be longer than a TTL by the time in which a master that was
// replaced stops (rule Margin of package gracemodel).
func TestCheckFindsNoMarginForAReplacedMaster(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0", "--min-replicas-to-write", "1")
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))
	redistest.WaitFor(t, "the replica follows", func() bool { return replica.Info("replication", "master_link_status") == "up" })
	redistest.WaitFor(t, "the master counts the replica", func() bool { return master.Info("replication", "min_slaves_good_slaves") == "1" })
	for maxTTL, want := range map[time.Duration][]string{0: {"spare-replica", "margin"}, 2 * time.Second: {"spare-replica", "margin"}, 15 * time.Second: {"spare-replica", "margin"}, 30 * time.Second: {"spare-replica"}} {
		store := libraries[0].open(t, login{Addr: master.Addr}, &redisstore.Options{Grace: true, MaxTTL: maxTTL}).Store
		if maxTTL == 2*time.Second {
			mustOpen(t, store) // with that TTL
		}
		findings, err := store.Check(t.Context())
		if got := codes(findings); err != nil || !slices.Equal(got, want) {
			t.Errorf("MaxTTL %v: got %v, %v, want %v", maxTTL, findings, err, want)
		}
	}
}

// TestCheckFindsAProcessThatDoesNotAskForGrace although its namespace has it.
func TestCheckFindsAProcessThatDoesNotAskForGrace(t *testing.T) {
	t.Parallel()
	open := opener(t, redistest.Start(t).Addr)
	asks, plain := open(redisstore.Options{Grace: true}), open(redisstore.Options{})
	mustOpen(t, asks)
	for store, want := range map[Store][]string{asks: nil, plain: {"grace-not-asked"}} {
		if findings, err := store.Check(t.Context()); err != nil || !slices.Equal(codes(findings), want) {
			t.Errorf("got %v, %v, want %v", findings, err, want)
		}
	}
}

// TestCheckWritesNothing: a check of a server leaves it as it was.
func TestCheckWritesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, lib := range libraries {
		if _, err := lib.open(t, login{Addr: server.Addr}, nil).Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n, err := server.Do("DBSIZE").Int(); err != nil || n != 0 {
		t.Errorf("%d keys, %v", n, err)
	}
}

// TestCheckUnreachable: an unreachable server is an error, not a finding.
func TestCheckUnreachable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, lib := range libraries {
		c := lib.open(t, login{Addr: server.Addr}, nil)
		server.Restart() // what the client has open is gone, too
		server.Kill()
		if findings, err := c.Check(t.Context()); err == nil || len(findings) > 0 {
			t.Errorf("%s: got %v, %v, want an error", lib.name, findings, err)
		}
		server.Restart()
	}
}

// spread is a load balancer: it gives connections to one address to several
// servers in turn.
func spread(t testing.TB, addrs ...string) string {
	t.Helper()
	var turn atomic.Int64
	return forwarded(t, func() (net.Conn, error) {
		return net.Dial("tcp", addrs[turn.Add(1)%int64(len(addrs))])
	}, func(in io.Writer, out io.Reader) { _, _ = io.Copy(in, out) })
}

// forwarded is a proxy: dial finds the server of a connection, back carries what it
// answers.
func forwarded(t testing.TB, dial func() (net.Conn, error), back func(in io.Writer, out io.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := dial()
			if err != nil {
				_ = in.Close()
				continue
			}
			end := func() { _, _ = in.Close(), out.Close() }
			go func() {
				defer end()
				_, _ = io.Copy(out, in)
			}()
			go func() {
				defer end()
				back(in, out)
			}()
		}
	}()
	return l.Addr().String()
}
