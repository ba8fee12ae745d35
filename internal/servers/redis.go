// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// replyWithin is how long a Redis server may take to answer one command.
const replyWithin = 10 * time.Second

// Flavor is a kind of server that speaks the protocol of Redis. Scripts, INFO and the
// words of errors differ.
type Flavor string

// The flavors.
const (
	Redis  Flavor = "redis"
	Valkey Flavor = "valkey"
)

// Flavors are those that everything is tested on.
var Flavors = []Flavor{Redis, Valkey}

func (f Flavor) binary() (string, error) {
	if f == Valkey {
		return valkey.find()
	}
	return redisServer.find()
}

// Need returns an error that says how to install the server if it is not.
func (f Flavor) Need() error {
	_, err := f.binary()
	return err
}

// RedisServer is a Redis or a Valkey server, or a sentinel of theirs.
type RedisServer struct{ *Server }

// New prepares a server without persistence that does not run yet. args are further
// arguments of its command line: "--maxmemory", "1".
func (f Flavor) New(args ...string) (*RedisServer, error) {
	program, err := f.binary()
	if err != nil {
		return nil, err
	}
	s, err := newServer(string(f), "")
	if err != nil {
		return nil, err
	}
	s.args = append([]string{program, "--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no"}, args...)
	s.ready = "Ready to accept connections"
	return &RedisServer{s}, nil
}

// configFile is in the folder of the server; see KeepRole.
const configFile = "redis.conf"

// KeepRole moves the arguments of a server that does not run yet into a configuration file, as servers in production have
// one. A sentinel that changes the role of a server has it rewrite that file, so a restart keeps the role. Without a file it would
// take back the role of its arguments, perhaps that of a replica whose master follows it.
func (s *RedisServer) KeepRole() error {
	var text strings.Builder
	for _, a := range s.args[1:] {
		if name, ok := strings.CutPrefix(a, "--"); ok {
			text.WriteString("\n" + name)
		} else {
			fmt.Fprintf(&text, " %q", a)
		}
	}
	path := filepath.Join(s.dir, configFile)
	s.args = []string{s.args[0], path}
	return os.WriteFile(path, []byte(text.String()+"\n"), 0o600)
}

// Wipe empties the folder of a server that does not run, but for what the server knows of its role and of its cluster.
func (s *RedisServer) Wipe() error { return s.Server.Wipe(configFile, "nodes.conf") }

// Start is New, and starts the server.
func (f Flavor) Start(args ...string) (*RedisServer, error) {
	return started(func() (*RedisServer, error) { return f.New(args...) })
}

// StartClocked is Start for a server whose wall clock can be set while it runs.
func (f Flavor) StartClocked(args ...string) (*RedisServer, error) {
	return started(func() (*RedisServer, error) {
		s, err := f.New(args...)
		if err != nil {
			return nil, err
		}
		clock, err := RedisClock()
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.UseClock(clock)
		return s, nil
	})
}

// Do sends one command to the server on a new connection.
func (s *RedisServer) Do(args ...any) Reply { return ask(s.Addr, args...) }

// must sends one command that has to succeed, and adds its failure to those before.
func (s *RedisServer) must(before error, args ...any) error {
	if err := s.Do(args...).Err(); err != nil {
		return errors.Join(before, fmt.Errorf("%s: %v: %w", s.Addr, args, err))
	}
	return before
}

// Info returns one field of a section of INFO, empty if the server does not answer or
// does not have the field.
func (s *RedisServer) Info(section, field string) string {
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

// dump is where the server writes its data, and from where it reads them when it starts.
func (s *RedisServer) dump() string { return filepath.Join(s.dir, "dump.rdb") }

// Reboot kills the server and starts it again with its data as they were.
func (s *RedisServer) Reboot() error {
	rewind, err := s.Checkpoint()
	if err != nil {
		return err
	}
	return rewind()
}

// Checkpoint notes the data of the server. rewind kills the server and starts it again
// with these data, as a replica continues that lagged. It writes a snapshot when that is
// needed, instead of a log all the time, which would make every other test slower.
func (s *RedisServer) Checkpoint() (rewind func() error, err error) {
	if err := Await(s.Addr+" saves", func() bool { // not while a replica is fed
		return s.Do("SAVE").Err() == nil
	}); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(s.dump())
	if err != nil {
		return nil, err
	}
	// A later start without a rewind is one without data.
	if err := os.Remove(s.dump()); err != nil {
		return nil, err
	}
	return func() error {
		s.Kill()
		if err := os.WriteFile(s.dump(), data, 0o600); err != nil {
			return err
		}
		defer os.Remove(s.dump())
		return s.Start()
	}, nil
}

// replicated are arguments of a server whose replicas log in as a separate user, so that
// only they can be locked out.
func replicated(args ...string) []string {
	return append([]string{
		"--repl-diskless-sync-delay", "0", "--masteruser", "repl", "--masterauth", "repl",
		"--user", "repl", "on", ">repl", "+psync", "+replconf", "+ping",
	}, args...)
}

// CutReplicas makes every replica of a server of Sentinels or of a RedisCluster miss what
// is written from now on: they are disconnected and cannot log in again until
// LetReplicas. Nothing changes for clients, sentinels and other nodes.
func (s *RedisServer) CutReplicas() error {
	if err := s.must(s.must(nil, "ACL", "SETUSER", "repl", "off"), "CLIENT", "KILL", "TYPE", "replica"); err != nil {
		return err
	}
	return Await(s.Addr+" has no replica any more", func() bool { return s.Info("replication", "connected_slaves") == "0" })
}

// LetReplicas ends CutReplicas.
func (s *RedisServer) LetReplicas() error { return s.must(nil, "ACL", "SETUSER", "repl", "on") }
