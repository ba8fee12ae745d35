// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// How the cut-offs are made: half of the servers are stopped (SIGSTOP), half of
// the processes are cut off from a server that goes on. All at the same time, so
// that the machine is busy when it matters.
const cutoffTTL = 10 * time.Second

// cutoff is one trial.
type cutoff struct {
	name   string
	margin time.Duration // from the death of the command to the moment another can hold
	code   int
	err    error
}

// TestCutOffs measures the promise of run: from the death of the last process of
// the command to the earliest moment at which another could hold the lock. It
// prints the least of all cut-offs as a figure.
func TestCutOffs(t *testing.T) {
	shared := startRedis(t)
	results := make([]cutoff, *cutoffs)
	for i := range results {
		run := func(t *testing.T) {
			t.Parallel()
			if i%2 == 0 {
				results[i] = pausedServer(t, i)
			} else {
				results[i] = partition(t, shared, i)
			}
		}
		t.Run(fmt.Sprint(i), run)
	}
	t.Cleanup(func() { // the trials have ended
		var margins []time.Duration
		for _, r := range results {
			if r.err == nil && r.code == exitLost {
				margins = append(margins, r.margin)
			} else {
				t.Errorf("%s: exit code %d, %v", r.name, r.code, r.err)
			}
		}
		if len(margins) == 0 {
			return
		}
		slices.Sort(margins)
		fmt.Printf("cut-offs: %d, ttl %v, from the death of the command to the next holder: least %v, median %v, most %v\n",
			len(margins), cutoffTTL, margins[0], margins[len(margins)/2], margins[len(margins)-1])
		figure.Print("cli-kill-margin-ms-min", float64(margins[0].Microseconds())/1000, figure.AtLeast(0))
		figure.Print("cli-cutoffs", len(margins), figure.AtLeast(50))
		if margins[0] < 0 {
			t.Errorf("a command outlived its lock by %v", -margins[0])
		}
	})
}

// victim is a command with children. Every third ends on TERM, the others are
// deaf, and each has a pipe open that closes when the last of them is dead.
type victim struct {
	p    *process
	died chan time.Time
}

func newVictim(t *testing.T, store, lock string, i int) *victim {
	t.Helper()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "alive")
	must.OK(t, syscall.Mkfifo(fifo, 0o600))
	script := `exec 5>` + fifo + `; sleep 300 & setsid sleep 300 & echo >&5; wait; wait`
	if i%3 != 0 {
		script = `trap "" TERM; ` + script
	} else {
		script = `trap "exit 0" TERM; ` + script
	}
	v := &victim{died: make(chan time.Time, 1)}
	v.p = begin(t, store, "run", lock, "--ttl", cutoffTTL.String(), "--", "sh", "-c", script)
	started := make(chan error, 1)
	go func() {
		f, err := os.Open(fifo)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
		}
		started <- err
		if err == nil {
			_, _ = io.Copy(io.Discard, f)
			v.died <- time.Now()
			_ = f.Close()
		}
	}()
	select {
	case err := <-started:
		must.OK(t, err)
	case <-time.After(patience):
		t.Fatalf("the command was not started: %s", v.p.err.String())
	}
	return v
}

// anyMoment waits for up to a renewal, so that cut-offs fall everywhere between
// two of them.
func anyMoment() { <-time.After(time.Duration(rand.Int64N(int64(cutoffTTL / 3)))) }

// pausedServer stops the server. When it goes on is not up to it, so the earliest
// moment is what it said before: the end of the holder's session. A renewal that
// comes between asking and stopping makes that later, never earlier.
func pausedServer(t *testing.T, i int) cutoff {
	s := startRedis(t)
	c := s.client(t, &fencelock.Options{TTL: cutoffTTL})
	v := newVictim(t, s.url(), "lock", i)
	anyMoment()
	// An answer that took long says little about when it was true: ask again, but not forever
	// on a machine where all take long.
	var st fencelock.Status
	var err error
	asked, took := time.Now(), time.Hour
	for tries := 0; took > 20*time.Millisecond && tries < 100 && err == nil; tries++ {
		asked = time.Now()
		st, err = c.Inspect(t.Context(), "lock")
		took = time.Since(asked)
	}
	s.pause()
	defer s.resume()
	if err != nil || len(st.Holders) != 1 {
		return cutoff{name: "paused", err: fmt.Errorf("%+v: %w", st, err)}
	}
	end := asked.Add(st.Holders[0].EndsIn)
	select {
	case died := <-v.died:
		s.resume()
		return cutoff{name: "paused", margin: end.Sub(died), code: v.p.end()}
	case <-time.After(patience):
		return cutoff{name: "paused", err: fmt.Errorf("the command lives on: %s", v.p.err.String())}
	}
}

// partition cuts the holder off from a server that goes on and gives the lock to
// another who waits for it: that is the moment.
func partition(t *testing.T, s *redisServer, i int) cutoff {
	link := newProxy(t, s.addr)
	name := fmt.Sprintf("lock/%d", i)
	v := newVictim(t, "redis://"+link.addr, name, i)
	c := s.client(t, &fencelock.Options{TTL: cutoffTTL})
	granted := make(chan time.Time, 1)
	go func() {
		if l, err := c.Mutex(name).Lock(t.Context()); err == nil {
			granted <- time.Now()
			_ = l.Unlock(t.Context())
		}
	}()
	anyMoment()
	link.cut()
	defer link.Close()
	var died, next time.Time
	for died.IsZero() || next.IsZero() {
		select {
		case died = <-v.died:
		case next = <-granted:
		case <-time.After(patience):
			return cutoff{name: "partition", err: fmt.Errorf("died %v, granted %v: %s", died, next, v.p.err.String())}
		}
	}
	return cutoff{name: "partition", margin: next.Sub(died), code: v.p.end()}
}
