// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guarded

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/rig"
)

var long = flag.Duration("guarded.long", 0, "how long to run each guard; 0: a few pauses and kills")

// guard is a guard on its real server.
type guard struct {
	name string
	// start starts the server with one empty value and returns its URL. It may skip the test.
	start func(t *testing.T) (url string)
	// open makes the value of one process. Enter, Write and Read are used. The lock is called lock.
	open func(ctx context.Context, url string) (*fencetest.Value, error)
}

// guards are those whose writers are paused and killed.
var guards = []guard{sqlTable, pgxTable, pgxBatch, pgxRow, gormPostgres, gormMariaDB, gormTable, grpcService, s3Objects}

// noGuards guard nothing: the judge must report them.
var noGuards = []guard{noGuard}

const (
	workers = 4
	// patience is how long the test waits for anything: far more than it takes.
	patience = time.Minute
)

func TestGuarded(t *testing.T) {
	for _, g := range guards {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, g)
			began := time.Now()
			for n := 0; n < 4 || time.Since(began) < *long; n++ {
				switch {
				case n == 1 || n > 3 && rand.IntN(4) == 0:
					r.kill()
				default:
					r.pause(1 + n%2)
				}
				r.calm(rand.IntN(10))
			}
			r.report(r.end())
		})
	}
}

// TestJudgeFindsLateWrites: without a guard, a late write replaces what others wrote.
func TestJudgeFindsLateWrites(t *testing.T) {
	for _, g := range noGuards {
		t.Run(g.name, func(t *testing.T) {
			r := start(t, g)
			r.pause(1)
			wrong := r.end()
			if len(wrong) == 0 || !strings.Contains(strings.Join(wrong, "\n"), "replaced by a holder that had not read it") {
				t.Errorf("the judge found %q", wrong)
			}
			t.Logf("found: %q", wrong)
		})
	}
}

// run is a run of one guard.
type run struct {
	t       *testing.T
	g       guard
	redis   string
	url     string
	started int
	workers map[string]*rig.Child // those that live

	pauses, kills, blocked int

	mu     sync.Mutex
	events []event
	more   chan struct{} // closed by the next event
}

func start(t *testing.T, g guard) *run {
	t.Helper()
	server := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
	r := &run{t: t, g: g, redis: "redis://" + server.Addr, url: g.start(t), workers: map[string]*rig.Child{}, more: make(chan struct{})}
	for range workers {
		r.startWorker()
	}
	return r
}

// startWorker starts this program again.
func (r *run) startWorker() {
	r.t.Helper()
	r.started++
	name := fmt.Sprintf("w%d", r.started)
	child, err := rig.Start(r.t.Context(), rig.Command{Name: name, Read: rig.Lines(r.take),
		Env: []string{envGuard + "=" + r.g.name, envName + "=" + name, envRedis + "=" + r.redis, envURL + "=" + r.url}})
	must.OK(r.t, err)
	r.t.Cleanup(child.Kill)
	r.workers[name] = child
}

// take records what a worker tells. Half a line is of a worker that was killed.
func (r *run) take(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// now is the place of the next event.
func (r *run) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// next returns the first event from a place on that matches, if there is one in time.
func (r *run) next(from int, within time.Duration, match func(event) bool) (event, bool) {
	late := time.After(within)
	for {
		r.mu.Lock()
		for ; from < len(r.events); from++ {
			if e := r.events[from]; match(e) {
				r.mu.Unlock()
				return e, true
			}
		}
		more := r.more
		r.mu.Unlock()
		select {
		case <-more:
		case <-late:
			return event{}, false
		}
	}
}

// await is next for an event that must come.
func (r *run) await(from int, what string, match func(event) bool) event {
	r.t.Helper()
	e, ok := r.next(from, patience, match)
	if !ok {
		r.fail(what)
	}
	return e
}

// fail ends the test because no worker did something in time.
func (r *run) fail(what string) {
	r.t.Helper()
	for _, child := range r.workers {
		select {
		case <-child.Over():
			r.t.Errorf("worker %s ended: %v", child.Name, child.Err())
		default:
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Fatalf("no worker %s within %v; the last events are %+v", what, patience, r.events[max(0, len(r.events)-5):])
}

// calm lets the workers write for a while.
func (r *run) calm(writes int) {
	r.t.Helper()
	from := r.now()
	r.await(from, "writes", func(e event) bool {
		if e.Kind == written {
			writes--
		}
		return writes < 0
	})
}

// holder waits for a worker that has read and not written yet, as far as one can tell. Now
// and then the write is on its way.
func (r *run) holder(within time.Duration, but ...string) (event, bool) {
	at := readValue
	if rand.IntN(5) == 0 {
		at = tries
	}
	return r.next(r.now(), within, func(e event) bool { return e.Kind == at && !slices.Contains(but, e.Worker) })
}

// pause pauses holders, one after the other, until another worker has written. Then they
// resume. A holder that is paused inside of a transaction keeps the others waiting: then there
// may be no second holder, and nobody writes.
func (r *run) pause(holders int) {
	r.t.Helper()
	var paused []string
	var newest int64
	from, within := r.now(), patience
	for range holders {
		e, ok := r.holder(within, paused...)
		if !ok {
			break
		}
		child := r.workers[e.Worker]
		child.Signal(syscall.SIGSTOP)
		servers.AwaitStopped(child.Pid())
		paused, newest = append(paused, e.Worker), e.Token
		within = 4 * ttl
		r.pauses++
	}
	if len(paused) == 0 {
		r.fail("reads")
	}
	_, overtaken := r.next(from, 4*ttl, func(e event) bool {
		return e.Kind == written && e.Token > newest && !slices.Contains(paused, e.Worker)
	})
	if !overtaken {
		r.blocked++
	}
	from = r.now()
	for _, name := range paused { // all of them: one may wait for the transaction of the other
		r.workers[name].Signal(syscall.SIGCONT)
	}
	for _, name := range paused {
		r.await(from, "ends its write after a pause", func(e event) bool {
			return e.Worker == name && e.Kind != tries
		})
	}
}

// kill kills a holder and starts another worker.
func (r *run) kill() {
	r.t.Helper()
	e, ok := r.holder(patience)
	if !ok {
		r.fail("reads")
	}
	r.workers[e.Worker].Kill()
	delete(r.workers, e.Worker)
	r.kills++
	r.startWorker()
	r.await(r.now(), "writes after a kill", func(e event) bool { return e.Kind == written })
}

// end ends all workers and judges.
func (r *run) end() (wrong []string) {
	r.t.Helper()
	for name, child := range r.workers {
		if err := child.Finish(patience); err != nil {
			r.t.Errorf("worker %s: %v", name, child.Err())
		}
	}
	ctx := context.Background()
	value, err := r.g.open(ctx, r.url)
	must.OK(r.t, err)
	last, err := value.Read(ctx)
	must.OK(r.t, err)
	return judge(r.events, last)
}

// report prints the figures. A run without a late write that was rejected proved nothing.
func (r *run) report(wrong []string) {
	r.t.Helper()
	count := map[kind]int{}
	failures := map[string]int{}
	for _, e := range r.events {
		count[e.Kind]++
		if e.Kind == failed || e.Kind == unknown {
			failures[e.Error]++
		}
	}
	r.t.Logf("guarded: %d pauses, %d of them inside a transaction, %d kills, %d writes, %d late writes rejected, %d late entries rejected, %d unknown, %d failed",
		r.pauses, r.blocked, r.kills, count[written], count[rejected], count[late], count[unknown], count[failed])
	figure.Print("guarded-stale-writes-"+r.g.name, len(wrong), figure.Exactly(0))
	for _, w := range wrong[:min(len(wrong), 20)] {
		r.t.Error(w)
	}
	if count[rejected] == 0 || r.pauses == 0 || r.kills == 0 {
		r.t.Error("no pause, no kill or no late write that was rejected: the run proved nothing")
	}
	for text, n := range failures {
		r.t.Logf("%d times: %s", n, text)
	}
}
