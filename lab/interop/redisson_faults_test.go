// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/redis/go-redis/v9"
)

// faults are the cells in which the network or the server fails.
var faults = []cell{
	{"reply of a lock lost", "Go", "Java", func(s *scene) {
		lossy := &loser{}
		client := redis.NewClient(&redis.Options{Addr: s.server().Addr})
		client.AddHook(lossy)
		locks := s.clientOf(storeAt(s, client, s.kind), s.long)
		s.unlock(s.at(s.name + "/other").lock(locks)) // there is a session
		lossy.on.Store(true)
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { _, err := locks.Mutex(s.name).Lock(ctx); ended <- err }()
		must.OK(s, servers.Await("the lock is attempted again and again", func() bool { return lossy.lost.Load() > 3 }))
		if fields := strings.Join(s.fields(), " "); !strings.Contains(fields, ":2 1 fencelock") {
			s.Errorf("after lost replies the lock is %s, want a count of 1", fields)
		}
		cancel()
		if err := await(s, "the end of the wait", ended); !errors.Is(err, context.Canceled) {
			s.Errorf("Lock without a reply: %v", err)
		}
		lossy.on.Store(false)
		s.java().Must("a", "LOCK", s.kind, s.name, -1) // the given-up claim is withdrawn, long before its TTL
		s.java().Must("a", "UNLOCK", s.kind, s.name)
	}},
	{"reply of a lock lost", "Java", "Go", func(s *scene) {
		proxy, err := servers.NewProxy(s.server().Addr)
		must.OK(s, err)
		s.Cleanup(proxy.Close)
		java := &peer{start(s, peerOptions{Version: s.version, Servers: []string{proxy.Addr}, Watchdog: watchdog, Timeout: time.Second}), ""}
		java.Do("a", "LOCKED", s.kind, s.name) // it is connected
		proxy.Filter(dropReplyTo(s.name))
		got := java.Do("a", "LOCK", s.kind, s.name, -1) // sent again, or an exception, by version
		if got.Word == "ok" {
			java.Must("a", "UNLOCK", s.kind, s.name)
		}
		s.unlock(s.lock(s.client(ttl))) // by the end of the lease at the latest
	}},
	{"server restarts with its data", "Java", "Go", func(s *scene) {
		s = s.apart()
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		s.restart(s)
		s.busy(locks)
		must.OK(s, servers.Await("Java unlocks", func() bool {
			got := java.Do("a", "UNLOCK", s.kind, s.name)
			return got.Word == "ok" || strings.Contains(got.Value, "IllegalMonitorState") // repeated
		}))
		s.unlock(s.lock(locks))
	}},
	{"server restarts with its data", "Go", "Java", func(s *scene) {
		s = s.apart()
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		s.restart(s)
		must.OK(s, servers.Await("Java reaches the server", func() bool { return java.Do("a", "LOCKED", s.kind, s.name).Word == "ok" }))
		if got := java.Do("a", "TRY", s.kind, s.name, (ttl + ttl/2).Milliseconds(), -1); got.Word != "no" {
			s.Errorf("tryLock after a restart: %v", got)
		}
		must.OK(s, l.Err())
		s.unlock(l)
		java.Must("a", "LOCK", s.kind, s.name, -1)
	}},
	{"server loses its data", "Java", "Go", func(s *scene) {
		s = s.apart()
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		must.OK(s, s.server().Do("FLUSHALL").Err())
		l := s.lock(locks)
		if got := java.Do("a", "UNLOCK", s.kind, s.name); !strings.Contains(got.Value, "IllegalMonitorState") {
			s.Errorf("unlock of a lock that the server lost: %v", got)
		}
		must.OK(s, l.Err())
		s.unlock(l)
	}},
	{"server loses its data", "Go", "Java", func(s *scene) {
		s = s.apart()
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		must.OK(s, s.server().Do("FLUSHALL").Err())
		java.Must("a", "LOCK", s.kind, s.name, -1)
		s.noticed(l, fencelock.ErrLost)
		_ = l.Unlock(s.Context())
		java.Must("a", "HELD", s.kind, s.name)
		java.Must("a", "UNLOCK", s.kind, s.name)
	}},
}

// dropReplyTo drops the first reply to a script about a lock.
func dropReplyTo(name string) func(conn int, toServer bool, data []byte) bool {
	var asked atomic.Int64 // the connection, + 1
	var over atomic.Bool
	return func(conn int, toServer bool, data []byte) bool {
		if toServer && bytes.Contains(data, []byte(name)) && bytes.Contains(bytes.ToUpper(data), []byte("EVAL")) {
			asked.CompareAndSwap(0, int64(conn)+1)
			return true
		}
		return toServer || asked.Load() != int64(conn)+1 || !over.CompareAndSwap(false, true)
	}
}

// loser is a client library that loses the replies to scripts.
type loser struct {
	on   atomic.Bool
	lost atomic.Int64
}

// DialHook implements redis.Hook.
func (*loser) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*loser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (l *loser) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if l.on.Load() && strings.HasPrefix(cmd.Name(), "eval") && err == nil {
			l.lost.Add(1)
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return err
	}
}
