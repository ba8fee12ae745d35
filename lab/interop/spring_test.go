// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// springVersion is the version of spring-integration-redis.
const springVersion = "6.5.1"

// springScene is a lock of a registry of Spring Integration that Go shares.
type springScene struct {
	*testing.T
	mode, name string
	server     *servers.RedisServer
	shared     *process
}

func (s *springScene) java() *peer { return &peer{s.shared, s.name + "/"} }

// mortal starts a Java process that can be killed. Its locks have a short lease.
func (s *springScene) mortal() *peer {
	s.Helper()
	return &peer{startSpring(s, s.server, 2*time.Second), ""}
}

func startSpring(t testing.TB, server *servers.RedisServer, lease time.Duration) *process {
	t.Helper()
	command, err := command("spring", springVersion)
	if err != nil {
		t.Skip(err)
	}
	return launch(t, command, server.Addr, millis(lease))
}

// client returns a Go process.
func (s *springScene) client(ttl time.Duration) *fencelock.Client {
	s.Helper()
	return s.waiter(ttl).Client
}

// waiter returns a Go process that counts its attempts.
func (s *springScene) waiter(ttl time.Duration) *waiter {
	s.Helper()
	refused := &refusals{}
	conn := redis.NewClient(&redis.Options{Addr: s.server.Addr})
	conn.AddHook(refused)
	opts := &setnxstore.Options{Key: s.mode + ":%s"}
	if s.mode == "pubsub" {
		opts.Channel = s.mode + "-channel"
	}
	store, err := setnxstore.New(conn, opts)
	must.OK(s, err)
	locks, err := fencelock.New(store, &fencelock.Options{TTL: ttl})
	must.OK(s, err)
	s.Cleanup(func() { _ = locks.Close(context.Background()); _ = store.Close(); _ = conn.Close() })
	return &waiter{locks, refused}
}

// springCell is one thing that must be so between a holder and a waiter.
type springCell struct {
	what, holder, waiter string
	do                   func(s *springScene)
}

var springCells = []springCell{
	{"excluded", "Java", "Go", func(s *springScene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.mode, s.name)
		if _, err := locks.Mutex(s.name).TryLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
			s.Fatalf("TryLock beside a Java holder: %v", err)
		}
		java.Must("a", "UNLOCK", s.mode, s.name)
		l, err := locks.Mutex(s.name).Lock(s.Context())
		must.OK(s, err)
		must.OK(s, l.Unlock(s.Context()))
	}},
	{"excluded", "Go", "Java", func(s *springScene) {
		java, locks := s.java(), s.client(ttl)
		l, err := locks.Mutex(s.name).Lock(s.Context())
		must.OK(s, err)
		if got := java.Do("a", "TRY", s.mode, s.name, 100); got.Word != "no" {
			s.Fatalf("tryLock beside a Go holder: %v", got)
		}
		must.OK(s, l.Unlock(s.Context()))
		java.Must("a", "LOCK", s.mode, s.name)
		java.Must("a", "UNLOCK", s.mode, s.name)
	}},
	{"holder killed", "Java", "Go", func(s *springScene) {
		java, locks := s.mortal(), s.client(ttl)
		java.Must("a", "LOCK", s.mode, s.name)
		java.Kill()
		l, err := locks.Mutex(s.name).Lock(s.Context())
		must.OK(s, err)
		must.OK(s, l.Unlock(s.Context()))
	}},
	{"same on the wire", "both", "both", func(s *springScene) {
		java, locks := s.java(), s.client(ttl)
		l, err := locks.Mutex(s.name).Lock(s.Context()) // opens the session
		must.OK(s, err)
		must.OK(s, l.Unlock(s.Context()))
		stop := monitor(s, s.server)
		java.Must("a", "LOCK", s.mode, s.name)
		java.Must("a", "UNLOCK", s.mode, s.name)
		theirs := s.freed(stop())
		stop = monitor(s, s.server)
		l, err = locks.Mutex(s.name).Lock(s.Context())
		must.OK(s, err)
		must.OK(s, l.Unlock(s.Context()))
		if ours := s.freed(stop()); theirs == "" || ours != theirs {
			s.Errorf("Go writes\n\t%s\nSpring writes\n\t%s", ours, theirs)
		}
	}},
}

// freed returns what a recording wrote and published about the lock.
func (s *springScene) freed(lines []string) string {
	var all []string
	for _, line := range lines {
		var words []string
		for _, m := range word.FindAllStringSubmatch(line, -1) {
			words = append(words, m[1])
		}
		if !strings.Contains(line, " lua] ") || len(words) < 2 {
			continue
		}
		switch command := strings.ToLower(words[0]); command {
		case "set", "del", "unlink":
			if words[1] == s.mode+":"+s.name {
				all = append(all, strings.Replace(command, "unlink", "del", 1)+" "+words[1])
			}
		case "publish":
			all = append(all, "publish "+strings.Join(words[1:], " "))
		}
	}
	return strings.Join(all, "\n\t")
}

// springWoken are the cells of the mode that publishes.
var springWoken = []springCell{
	{"woken", "Java", "Go", func(s *springScene) {
		java, w := s.java(), s.waiter(long)
		java.Must("a", "LOCK", s.mode, s.name)
		waiting := w.locking(s, s.mode+":"+s.name, w.Mutex(s.name).Lock)
		java.Must("a", "UNLOCK", s.mode, s.name)
		must.OK(s, granted(s, waiting).lease.Unlock(s.Context()))
	}},
	{"woken", "Go", "Java", func(s *springScene) {
		java, locks := s.java(), s.client(long)
		l, err := locks.Mutex(s.name).Lock(s.Context())
		must.OK(s, err)
		waiting := java.Ask("a", "LOCK", s.mode, s.name)
		must.OK(s, servers.Await("a waits", func() bool { return java.Do("a", "WAITS", s.mode, s.name).Word == "ok" }))
		must.OK(s, l.Unlock(s.Context()))
		must.OK(s, await(s, "lock() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.mode, s.name)
	}},
}

// springModes are the modes of a registry, with their cells.
var springModes = []struct {
	mode, title string
	cells       []springCell
}{
	{"spin", "Spring Integration, SPIN_LOCK", springCells},
	{"pubsub", "Spring Integration, PUB_SUB_LOCK", append(append([]springCell{}, springCells...), springWoken...)},
}

// springRows are the rows of the page.
func springRows() (all []row) {
	for _, m := range springModes {
		for _, c := range m.cells {
			all = append(all, row{m.title, c.what, c.holder, c.waiter})
		}
	}
	return all
}

// TestSpring shares locks with the registries of Spring Integration.
func TestSpring(t *testing.T) {
	byHand(t)
	t.Parallel()
	server := redisServer(t)
	shared := startSpring(t, server, long)
	for _, m := range springModes {
		t.Run(m.mode, func(t *testing.T) {
			for _, c := range m.cells {
				t.Run(c.what+" by "+c.holder, func(t *testing.T) {
					results.noteTest(t, row{m.title, c.what, c.holder, c.waiter}, springVersion)
					c.do(&springScene{T: t, mode: m.mode, name: fmt.Sprint("orders/", names.Add(1)), server: server, shared: shared})
				})
			}
		})
	}
}
