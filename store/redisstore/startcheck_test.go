// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// openSession opens a session as the core does when the first lock is asked for.
func openSession(t *testing.T, s driver.Store) error {
	t.Helper()
	session, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
	if err == nil {
		err = session.Close(t.Context())
	}
	return err
}

// TestStart asks for the first session at servers that are set up badly.
func TestStart(t *testing.T) {
	t.Parallel()
	evicting := []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}
	for _, flavor := range redistest.Flavors {
		t.Run(string(flavor), func(t *testing.T) {
			flavor.Need(t)
			master := flavor.Start(t, "--repl-diskless-sync-delay", "0")
			replica := flavor.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))
			redistest.WaitFor(t, "the replica follows", func() bool { return replica.Info("replication", "master_link_status") == "up" })
			_, noInfo := startWithUser(t, flavor, "-info")
			_, noHSet := startWithUser(t, flavor, "-hset")
			sound := flavor.Start(t).Addr
			for _, tt := range []struct {
				name    string
				to      login
				grace   bool
				refused string   // the code of the finding
				fix     string   // and what to change
				warned  []string // the codes of the others
			}{
				{name: "sound", to: login{Addr: sound}},
				{name: "evicts", to: login{Addr: flavor.Start(t, evicting...).Addr}, refused: "eviction", fix: "maxmemory-policy noeviction"},
				{name: "evicts in spite of grace", to: login{Addr: flavor.Start(t, evicting...).Addr}, grace: true,
					refused: "eviction", fix: "maxmemory-policy noeviction"},
				{name: "replicas", to: login{Addr: master.Addr}, warned: []string{"replicas-without-grace"}},
				{name: "replicas and grace", to: login{Addr: master.Addr}, grace: true, warned: []string{"min-replicas"}},
				{name: "part of a cluster", to: login{Addr: flavor.Start(t, redistest.ClusterNode(t)...).Addr},
					refused: "cluster-client", fix: "NewClusterClient"},
				{name: "two behind one address", to: login{Addr: spread(t, sound, flavor.Start(t).Addr)},
					refused: "proxy", fix: "connect to the master directly"},
				{name: "hides restarts", to: login{Addr: disguised(t, sound, "\nrun_id:", "\nrun_no:")},
					refused: "run-id", fix: "connect to the server directly"},
				{name: "too old", to: login{Addr: disguised(t, sound, "redis_version:7.", "redis_version:6.")},
					refused: "version", fix: "upgrade"},
				{name: "no INFO", to: noInfo, refused: "info-forbidden", fix: "ACL SETUSER", warned: []string{"unchecked"}},
				{name: "no HSET", to: noHSet, refused: "commands-forbidden", fix: "ACL SETUSER"},
			} {
				for _, lib := range libraries {
					t.Run(tt.name+"/"+lib.name, func(t *testing.T) {
						var warned []string
						opts := &redisstore.Options{Grace: tt.grace, Warn: func(f driver.Finding) { warned = append(warned, f.Code) }}
						if tt.grace {
							opts.Namespace = "other" // than the one without
						}
						c := lib.open(t, tt.to, opts)
						for range 2 { // the second time reports nothing new
							wantStart(t, openSession(t, c), tt.refused, tt.fix)
						}
						if slices.Sort(warned); !slices.Equal(warned, tt.warned) {
							t.Errorf("warned of %v, want %v", warned, tt.warned)
						}
					})
				}
			}
		})
	}
}

// TestStartWithoutACommand: a service may have no command that the store needs, or call it by another name. The first lock
// fails at once and says so; no permission would help.
func TestStartWithoutACommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"INFO", "EVAL", "MULTI", "SCRIPT", "ZADD", "TIME"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--rename-command", command, "")
			for _, lib := range libraries {
				err := openSession(t, lib.open(t, login{Addr: server.Addr}, nil))
				wantStart(t, err, "commands-missing", "use a server that has it")
				if err != nil && (strings.Contains(err.Error(), "ACL SETUSER") || strings.Contains(err.Error(), "accept=") || !strings.Contains(err.Error(), strings.ToLower(command))) {
					t.Errorf("%s: got %v, want the command and advice that helps", lib.name, err)
				}
			}
		})
	}
}

// wantStart fails unless err is a refusal with that code and that fix, or none.
func wantStart(t *testing.T, err error, code, fix string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("got %v, want a session", err)
		}
		return
	}
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "("+code+")") || !strings.Contains(err.Error(), fix) {
		t.Errorf("got %v, want it refused for %q, with the fix %q", err, code, fix)
	}
}

// TestStartAtAReplica: a replica may be a failover under way, so the store warns and is
// unavailable instead of refusing it, and works once the server is a master.
func TestStartAtAReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(redistest.Start(t).Port))
	var warned []string
	c := libraries[0].open(t, login{Addr: server.Addr}, &redisstore.Options{Warn: func(f driver.Finding) { warned = append(warned, f.Code) }})
	if err := openSession(t, c); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("got %v, want one that wraps %q", err, driver.ErrUnavailable)
	}
	if !slices.Contains(warned, "replica") {
		t.Errorf("warned of %v, want replica", warned)
	}
	must.OK(t, server.Do("REPLICAOF", "NO", "ONE").Err())
	if err := openSession(t, c); err != nil {
		t.Error(err)
	}
}

// TestStartRefusedAsUsersSeeIt: the first lock fails at once with what to do, and
// works when that was done. Looking is allowed all the time.
func TestStartRefusedAsUsersSeeIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	opts := &redisstore.Options{Grace: true, MaxTTL: 6 * time.Second}
	_, err := redisstore.Open(t.Context(), "redis://"+server.Addr, opts)
	wantStart(t, err, "eviction", "CONFIG SET maxmemory-policy noeviction")

	store := libraries[0].open(t, login{Addr: server.Addr}, opts)
	c := redistest.Locks(t, store)
	_, err = c.Mutex("x").Lock(t.Context())
	var ours *fencelock.Error
	if !errors.As(err, &ours) || errors.Is(err, fencelock.ErrUnavailable) {
		t.Errorf("got %v, want a plain error", err)
	}
	wantStart(t, err, "eviction", "CONFIG SET maxmemory-policy noeviction")
	if _, err := store.Inspect(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	must.OK(t, server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction").Err())
	if _, err := c.Mutex("x").Lock(t.Context()); err != nil {
		t.Error(err)
	}

	accepted := *opts
	accepted.Namespace, accepted.Accept = "another", []string{"eviction"}
	must.OK(t, server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru").Err())
	s, err := redisstore.Open(t.Context(), "redis://"+server.Addr, &accepted)
	must.OK(t, err)
	_ = s.Close()
}

// TestStartLogs: without Options.Warn the store logs its warnings. The test must not run in
// parallel with others: there is one default logger.
func TestStartLogs(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	must.OK(t, openSession(t, libraries[0].open(t, login{Addr: server.Addr}, nil)))
	for _, want := range []string{"level=WARN", "code=eviction", "server=" + server.Addr, "maxmemory-policy noeviction"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
}

// disguised is a proxy that shows one thing in place of another, of the same length.
func disguised(t testing.TB, addr, real, shown string) string {
	t.Helper()
	return forwarded(t, func() (net.Conn, error) { return net.Dial("tcp", addr) }, func(in io.Writer, out io.Reader) {
		buf := make([]byte, 1<<20)
		for {
			n, err := out.Read(buf)
			if err != nil {
				return
			}
			if _, err := in.Write(bytes.ReplaceAll(buf[:n], []byte(real), []byte(shown))); err != nil {
				return
			}
		}
	})
}
