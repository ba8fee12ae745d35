// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlstore_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

var kills = flag.Int("sqlstore.kills", 4, "at how many messages TestServerIsKilledAtAnyMessage kills each server; 0 means at every one")

// killer counts the messages between clients and a server, in both directions, and kills the server at one of them:
// a request does not arrive, or was done and the reply is lost.
type killer struct {
	server *servers.Server
	mu     sync.Mutex
	seen   int
	at     int // -1: never
	killed bool
}

func (k *killer) filter(_ int, _ bool, _ []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen++
	if k.seen-1 == k.at {
		k.killed = true
		k.server.Kill()
	}
	return !k.killed
}

// arm counts from the first message again.
func (k *killer) arm(at int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen, k.at, k.killed = 0, at, false
}

// revive starts the server again if it was killed, and reports that.
func (k *killer) revive(t *testing.T) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.killed {
		return false
	}
	k.killed, k.at = false, -1
	for tries := 1; ; tries++ { // PostgreSQL refuses while a process of the killed server is left
		err := k.server.Start()
		if err == nil {
			return true
		}
		if tries == 20 {
			t.Fatal(err)
		}
		<-time.After(time.Second)
	}
}

// TestServerIsKilledAtAnyMessage: a server is killed at any message of two holders that hand a lock back and forth, waiting for each other or not, and
// is started again, and once more after the last unlock. Two never hold at once, no token is repeated, and the lock becomes free soon: if
// the crash brought back a holder whose unlock was confirmed, its process repeats the unlock.
func TestServerIsKilledAtAnyMessage(t *testing.T) {
	alone(t, func(t *testing.T, k kind, server *servers.Server) {
		b := k.behind(t, server)
		direct := k.store(t, k.connect(t, server.Port), &b.opts)
		kill := &killer{server: server, at: -1}
		g := &handback{waits: make(chan struct{}, 1), last: map[string]driver.Token{}, holders: map[string]*fencelock.Lease{}}
		for i := range g.clients {
			g.clients[i] = g.client(t, b)
			lock(t, g.clients[i], fmt.Sprintf("own %d", i)) // a session that is not used ends by itself
		}
		g.run(t, kill) // connections are open now
		b.proxy.Filter(kill.filter)
		kill.arm(-1)
		g.run(t, kill)
		kill.mu.Lock()
		messages := kill.seen
		kill.mu.Unlock()
		step := 1
		if *kills > 0 {
			step = max(1, messages / *kills)
		}
		times := 0
		for at := 0; at < messages; at += step {
			g.run(t, kill) // the messages are counted from the same state again: connections are open, statements prepared
			kill.arm(at)
			if g.run(t, kill) {
				times++
			}
			g.free(t, direct, at)
		}
		g.run(t, kill)
		must.OK(t, server.Restart())
		g.free(t, direct, messages)
		t.Logf("killed %d times, at messages of %d", times, messages)
		if times == 0 {
			t.Error("the server was never killed")
		}
	})
}

// free waits until nobody holds the locks: an unlock that was not confirmed is repeated, and so is one that the crash has undone.
func (g *handback) free(t *testing.T, s driver.Store, at int) {
	t.Helper()
	for _, name := range []string{wantedLock, g.quiet()} {
		for end := time.Now().Add(handbackTTL); ; {
			st, err := inspectSoon(s, name)
			if err == nil && len(st.Holders) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("killed at message %d: after all unlocks the holders are %v, %v", at, st.Holders, err)
			}
		}
	}
}

const (
	handbackTTL = 50 * time.Second
	wantedLock  = "x"
)

// handback is two clients that hand locks to each other.
type handback struct {
	clients [2]*fencelock.Client
	waits   chan struct{} // a client waits for the other
	runs    int
	mu      sync.Mutex
	last    map[string]driver.Token
	holders map[string]*fencelock.Lease
}

// quiet is a lock that nobody waited for before the present run: its unlock does not wait for the disk on PostgreSQL.
func (g *handback) quiet() string { return fmt.Sprintf("quiet %d", g.runs) }

func (g *handback) client(t *testing.T, s driver.Store) *fencelock.Client {
	c, err := fencelock.New(s, &fencelock.Options{TTL: handbackTTL, StoreTimeout: 2 * time.Minute, Hooks: fencelock.Hooks{
		AcquireWait: func(context.Context, fencelock.AcquireWait) {
			select {
			case g.waits <- struct{}{}:
			default:
			}
		},
	}})
	must.OK(t, err)
	t.Cleanup(func() { c.Close(ctxb) })
	return c
}

// run lets both clients hold a lock in turn, the second waiting for the first, and another one that nobody waits for. It
// reports whether the server was killed meanwhile.
func (g *handback) run(t *testing.T, kill *killer) (killed bool) {
	t.Helper()
	g.runs++
	over := make(chan struct{})
	go func() {
		defer close(over)
		var waiter sync.WaitGroup
		g.hold(t, g.clients[0], wantedLock, func() {
			select {
			case <-g.waits:
			default:
			}
			waiter.Go(func() { g.hold(t, g.clients[1], wantedLock, func() {}) })
			select {
			case <-g.waits:
			case <-time.After(3 * time.Minute): // the other one has failed
			}
		})
		waiter.Wait()
		for i := range 4 {
			g.hold(t, g.clients[i%2], g.quiet(), func() {})
		}
	}()
	for {
		select {
		case <-over:
			return kill.revive(t) || killed
		case <-time.After(20 * time.Millisecond):
			killed = kill.revive(t) || killed
		}
	}
}

// hold locks, calls a function, and unlocks until the store confirms it.
func (g *handback) hold(t *testing.T, c *fencelock.Client, name string, meanwhile func()) {
	ctx, cancel := context.WithTimeout(ctxb, 3*time.Minute) // a holder that a crash brought back would stay for good
	defer cancel()
	l, err := c.Mutex(name).Lock(ctx)
	if err != nil {
		t.Errorf("lock: %v", err)
		return
	}
	g.mu.Lock()
	if h := g.holders[name]; h != nil && h.Valid() {
		t.Errorf("%v and %v are held at once", h, l)
	}
	if l.Token() <= g.last[name] {
		t.Errorf("token %v after %v", l.Token(), g.last[name])
	}
	g.last[name], g.holders[name] = l.Token(), l
	g.mu.Unlock()
	meanwhile()
	g.mu.Lock()
	delete(g.holders, name)
	g.mu.Unlock()
	if err := l.Unlock(ctxb); err != nil { // not confirmed; the client repeats it
		t.Logf("unlock: %v", err)
	}
}
