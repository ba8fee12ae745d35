// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fleet"
)

// history is what the processes of a fleet held, and until when the fleet runs.
type history struct {
	t     testing.TB
	until time.Time

	mu    sync.Mutex
	holds []fleet.Hold
	kills int
	// byGo and byJava count the holds of each side.
	byGo, byJava int
}

func (h *history) note(held fleet.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = append(h.holds, held)
	if strings.HasPrefix(held.Who, "go") {
		h.byGo++
	} else {
		h.byJava++
	}
}

// killed notes that a process was killed.
func (h *history) killed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kills++
}

// enough is how often each side must have held a lock before a fleet ends.
const enough = 20

// over reports whether the time has passed, and both sides have held locks. It begins when all
// processes run.
func (h *history) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.byGo >= enough && h.byJava >= enough
	if late := time.Since(h.until); late > patience && !held && !h.t.Failed() {
		h.t.Errorf("%d holds of Go and %d of the other side after %v, want %d of each", h.byGo, h.byJava, late, enough)
	}
	return time.Now().After(h.until) && held || h.t.Failed()
}

// report prints the figure, and fails the test if two holds overlap.
func (h *history) report(title string) {
	found := fleet.Overlaps(h.holds)
	figure.Print("interop-overlaps-"+strings.ReplaceAll(strings.ToLower(title), " ", "-"), len(found), figure.Exactly(0))
	h.t.Logf("%d holds of Go, %d of the other side, %d kills, %d overlaps in %v", h.byGo, h.byJava, h.kills, len(found), *torture)
	for _, pair := range found[:min(len(found), 10)] {
		h.t.Errorf("overlap: %+v and %+v", pair[0], pair[1])
	}
}

// mixedFleet is processes of Go and of another library that compete for a few locks.
type mixedFleet struct {
	*testing.T
	*history
	kind string
	// names are those of the locks in Go, and foreign is how the other library names one.
	names   []string
	foreign func(name string) string
	// locks makes a Go client, java a process of the other library, most of which are in Java.
	locks func() *fencelock.Client
	java  func() *peer
}

// run lets two processes of each side compete.
func (f *mixedFleet) run(title string) {
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() { f.goes(fmt.Sprint("go", i)) })
		all.Go(func() { f.javas(fmt.Sprint("java", i)) })
	}
	all.Wait()
	f.report(title)
}

// pick returns a lock, and whether to read.
func (f *mixedFleet) pick() (name string, reads bool) {
	return f.names[rand.IntN(len(f.names))], f.kind == "readwrite" && rand.IntN(3) > 0
}

// goes is a Go process. Now and then it closes its client, with locks that it holds, or waits for.
func (f *mixedFleet) goes(who string) {
	for !f.over() {
		locks := f.locks()
		var workers sync.WaitGroup
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(time.Second+rand.N(5*time.Second)))
		for range 4 {
			workers.Go(func() {
				for ctx.Err() == nil {
					f.work(ctx, who, locks)
				}
			})
		}
		workers.Wait()
		cancel()
		_ = locks.Close(context.Background())
	}
}

// work holds a lock for a moment.
func (f *mixedFleet) work(ctx context.Context, who string, locks *fencelock.Client) {
	name, reads := f.pick()
	take := locks.Mutex(name).Lock
	if f.kind == "readwrite" {
		take = locks.RWMutex(name).Lock
	}
	if reads {
		take = locks.RWMutex(name).RLock
	}
	l, err := take(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, fencelock.ErrLost) {
			f.Errorf("%s: %v", who, err)
		}
		return
	}
	from := time.Now()
	time.Sleep(rand.N(3 * time.Millisecond))
	until := time.Now()
	if l.Err() == nil {
		f.note(fleet.Hold{Who: who, Name: name, Reads: reads, From: from, Until: until})
	}
	_ = l.Unlock(context.Background())
}

// javas is a Java process. Now and then it is killed, and another one started.
func (f *mixedFleet) javas(who string) {
	for !f.over() {
		p := f.java()
		end := time.Now().Add(2*time.Second + rand.N(20*time.Second))
		var actors sync.WaitGroup
		for i := range 4 {
			actors.Go(func() {
				for !f.over() && f.cycle(who, p, fmt.Sprint(i)) {
				}
			})
		}
		for time.Now().Before(end) && !f.over() {
			time.Sleep(50 * time.Millisecond)
		}
		p.Kill()
		actors.Wait()
		f.killed()
	}
}

// cycle lets a thread hold a lock for a moment, and reports whether its process lives. A thread whose
// node in ZooKeeper has gone by the end does not count: its session has ended, and in Curator it is up
// to the application to notice.
func (f *mixedFleet) cycle(who string, p *peer, actor string) bool {
	name, reads := f.pick()
	kind := map[bool]string{true: "read", false: "write"}[reads]
	if f.kind != "readwrite" {
		kind = f.kind
	}
	got := await(f, "CYCLE", p.Ask(actor, "CYCLE", kind, f.foreign(name), rand.IntN(3)))
	switch {
	case got.Word == "ended":
		return false
	case got.Err() != nil:
		f.Errorf("%s: %v", who, got)
	case got.Value != "lost":
		from, until, err := got.held()
		must.OK(f, err)
		f.note(fleet.Hold{Who: who, Name: name, Reads: reads, From: from, Until: until})
	}
	return true
}

// fleet lets processes of both sides compete, which are killed and closed while they hold or wait. No two hold a lock at the same time.
func (s *scene) fleet(title string) {
	f := &mixedFleet{
		T: s.T, history: &history{t: s, until: time.Now().Add(*torture)}, kind: s.kind,
		names:   []string{s.name + "/a", s.name + "/b", s.name + "/c"},
		foreign: s.foreign,
		locks:   func() *fencelock.Client { return s.client(s.ttl) },
		java:    s.process,
	}
	f.run(title)
}

// TestMixedFleet shares locks of Redisson.
func TestMixedFleet(t *testing.T) {
	for _, f := range redissonTables {
		if !*all && f.title != "RLock" {
			continue
		}
		t.Run(f.title, func(t *testing.T) {
			t.Parallel()
			redissonStage(t, newest).play(t, f.kind, func(s *scene) { s.fleet(f.title) })
		})
	}
}

// TestMixedFleetOnZooKeeper shares locks of Curator.
func TestMixedFleetOnZooKeeper(t *testing.T) {
	byHand(t)
	for title, kind := range map[string]string{"InterProcessMutex": "mutex", "InterProcessReadWriteLock": "readwrite"} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			curatorStage(t, curatorNewest).play(t, kind, func(s *scene) { s.fleet(title) })
		})
	}
}

// TestMixedFleetOnEtcd shares locks of package concurrency.
func TestMixedFleetOnEtcd(t *testing.T) {
	byHand(t)
	etcdStage(t, etcdLibraries[0], servers.Test(t, newEtcd)).play(t, "mutex", func(s *scene) { s.fleet("etcd concurrency") })
}
