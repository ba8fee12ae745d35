// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long a set of servers may take for anything: far more than it
// needs, because test machines are slow and shared.
const patience = 40 * time.Second

// How long a server of a set may be silent before the others take it for down.
const (
	// Soon is for tests of failovers. A sentinel connects at most once a second, so
	// that less makes every switch the next.
	Soon = 1500 * time.Millisecond
	// Never is for tests that pause and restart servers and want no failover.
	Never = 10 * time.Minute
)

// Do sends one command to the server over a connection of its own.
func (s *Server) Do(args ...any) *redis.Cmd { return ask(s.Addr, args...) }

func ask(addr string, args ...any) *redis.Cmd {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience/4)
	defer cancel()
	return client.Do(ctx, args...)
}

// must sends one command that has to succeed.
func (s *Server) must(args ...any) *redis.Cmd {
	s.t.Helper()
	cmd := s.Do(args...)
	if cmd.Err() != nil {
		s.t.Fatalf("%s: %v: %v", s.Addr, args, cmd.Err())
	}
	return cmd
}

// Info returns one field of a section of INFO, empty if the server does not
// answer or has none.
func (s *Server) Info(section, field string) string {
	text, _ := s.Do("INFO", section).Text()
	return fieldOf(text, field)
}

// fieldOf finds a line "field:value".
func fieldOf(text, field string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Copy notes what the server has written to disk. The returned function kills
// the server and starts it again from that older state, as after a crash that
// lost what came later.
func (s *Server) Copy() (rewind func()) {
	s.t.Helper()
	copied := filepath.Join(s.t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(s.dir)); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		s.Kill()
		if err := s.Wipe(); err != nil {
			s.t.Fatal(err)
		}
		if err := os.CopyFS(s.dir, os.DirFS(copied)); err != nil {
			s.t.Fatal(err)
		}
		s.run()
	}
}

// replicated are the options of a server whose replicas log in as a user of
// their own, so that they alone can be shut out.
func replicated(extra ...string) []string {
	return append([]string{
		"--repl-diskless-sync-delay", "0", "--masteruser", "repl", "--masterauth", "repl",
		"--user", "repl", "on", ">repl", "+psync", "+replconf", "+ping",
	}, extra...)
}

// cutReplicas makes every replica of the server miss what is written from now
// on: they are thrown out and cannot log in again. To everybody else, sentinels
// and other nodes included, nothing changes.
func (s *Server) cutReplicas() error {
	if err := errors.Join(s.Do("ACL", "SETUSER", "repl", "off").Err(), s.Do("CLIENT", "KILL", "TYPE", "replica").Err()); err != nil {
		return err
	}
	return eventually(s.Addr+" has no replica any more", func() bool {
		return s.Info("replication", "connected_slaves") == "0"
	})
}

// until polls until ok holds, and fails the test if it never does.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if err := eventually(what, ok); err != nil {
		t.Fatal(err)
	}
}

// eventually is until for any goroutine.
func eventually(what string, ok func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v in vain: %s", patience, what)
		}
	}
	return nil
}
