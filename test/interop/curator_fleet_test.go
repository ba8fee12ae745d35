// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
)

// treeFleet is Go and Java processes that compete for a few locks in ZooKeeper.
type treeFleet struct {
	*treeScene
	*history
	paths []string
}

// pick returns a lock, and whether to read.
func (f *treeFleet) pick() (path string, reads bool) {
	return f.paths[rand.IntN(len(f.paths))], f.kind == "readwrite" && rand.IntN(3) > 0
}

// goes is a Go process. Now and then it closes its client, with locks that it holds, or waits for.
func (f *treeFleet) goes(who string) {
	for !f.over() {
		locks, err := fencelock.New(f.store(treeOptions), &fencelock.Options{TTL: ttl, Patience: patience})
		must(f, err)
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
func (f *treeFleet) work(ctx context.Context, who string, locks *fencelock.Client) {
	path, reads := f.pick()
	take := locks.Mutex(path[1:]).Lock
	if reads {
		take = locks.RWMutex(path[1:]).RLock
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
		f.note(hold{who, path, reads, from, until})
	}
	_ = l.Unlock(context.Background())
}

// javas is a Java process. Now and then it is killed, and another one started.
func (f *treeFleet) javas(who string) {
	for !f.over() {
		p := &peer{startCurator(f, f.version, f.ensemble.Addrs(), treeTimeout), ""}
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
// node has gone by the end does not count: its session has ended, and in Curator it is up to the
// application to notice.
func (f *treeFleet) cycle(who string, p *peer, actor string) bool {
	path, reads := f.pick()
	kind := map[bool]string{true: "read", false: "write"}[reads]
	if f.kind != "readwrite" {
		kind = f.kind
	}
	got := await(f, "CYCLE", p.Ask(actor, "CYCLE", kind, path, rand.IntN(3)))
	switch {
	case got.Word == "ended":
		return false
	case got.Err() != nil:
		f.Errorf("%s: %v", who, got)
		return false
	}
	if got.Value == "lost" {
		return true
	}
	var from, until int64
	_, err := fmt.Sscan(got.Value, &from, &until)
	must(f, err)
	f.note(hold{who, path, reads, time.UnixMicro(from), time.UnixMicro(until)})
	return true
}

// TestMixedFleetOnZooKeeper: processes of both sides compete, and are killed and closed while they hold
// or wait. No two hold a lock at the same time.
func TestMixedFleetOnZooKeeper(t *testing.T) {
	byHand(t)
	for _, format := range []struct{ title, kind string }{{"InterProcessMutex", "mutex"}, {"InterProcessReadWriteLock", "readwrite"}} {
		if !*all && format.kind != "mutex" {
			continue
		}
		t.Run(format.title, func(t *testing.T) {
			newTreeStage(t, curatorNewest).play(t, format.kind, func(s *treeScene) {
				s.java() // built, or the test is skipped
				f := &treeFleet{s, &history{t: t, until: time.Now().Add(*torture)}, []string{s.path + "-a", s.path + "-b", s.path + "-c"}}
				var all sync.WaitGroup
				for i := range 2 {
					all.Go(func() { f.goes(fmt.Sprint("go", i)) })
					all.Go(func() { f.javas(fmt.Sprint("java", i)) })
				}
				all.Wait()
				f.report(format.title)
			})
		})
	}
}

// TestWakeUpsOnZooKeeper measures how long it takes from an unlock to the return of a waiter's lock:
// from Java to Java, which is the native handoff, from Go to Java and from Java to Go, in turn.
func TestWakeUpsOnZooKeeper(t *testing.T) {
	if !*figures {
		t.Skip("run it with -interop.figures")
	}
	newTreeStage(t, curatorNewest).play(t, "mutex", func(s *treeScene) {
		a, b, locks := s.java(), s.mortal(), s.client(treeLong)
		waits := func() {
			must(s, servers.Await("w waits", func() bool { return b.Do("w", "WAITS", s.kind, s.path).Word == "ok" }))
		}
		var native, toJava, toGo []time.Duration
		for range 300 {
			a.Must("h", "LOCK", s.kind, s.path)
			waiting := b.Ask("w", "LOCK", s.kind, s.path)
			waits()
			begin := a.Must("h", "UNLOCK", s.kind, s.path).Begin
			native = append(native, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.path)

			l := s.lock(locks)
			waiting = b.Ask("w", "LOCK", s.kind, s.path)
			waits()
			begin = time.Now()
			s.unlock(l)
			toJava = append(toJava, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.path)

			a.Must("h", "LOCK", s.kind, s.path)
			got := s.locking(locks)
			s.queued(2)
			time.Sleep(20 * time.Millisecond) // its watch
			begin = a.Must("h", "UNLOCK", s.kind, s.path).Begin
			r := s.granted(got)
			toGo = append(toGo, r.at.Sub(begin))
			s.unlock(r.lease)
		}
		median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
		n, j, g := median(native), median(toJava), median(toGo)
		t.Logf("Java to Java %v, Go to Java %v, Java to Go %v", n, j, g)
		fmt.Printf("figure interop-curator-java-wakeup-vs-native %.2f <=1.2\n", j.Seconds()/n.Seconds())
		fmt.Printf("figure interop-curator-go-wakeup-vs-native %.2f <=1.2\n", g.Seconds()/n.Seconds())
	})
}
