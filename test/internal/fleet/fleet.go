// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fleet is a number of processes that compete for the same names.
type Fleet struct {
	t     testing.TB
	task  Task
	procs []*process

	mu       sync.Mutex
	holds    []Hold
	failures []string
	held     map[string]int // by process
	changed  chan struct{}  // closed at the next hold
}

// process is a running child.
type process struct {
	who   string
	cmd   *exec.Cmd
	in    io.Closer
	ended chan struct{}
	err   error // of its end
}

// Start starts a fleet of n processes in a phase. Each of them has held a lock when it returns.
func Start(t testing.TB, n int, task Task) *Fleet {
	t.Helper()
	f := &Fleet{t: t, task: task, held: map[string]int{}, changed: make(chan struct{})}
	t.Cleanup(f.stopAll)
	for i := range n {
		f.procs = append(f.procs, f.start(i, task.Phase))
	}
	for _, p := range f.procs {
		f.await(p)
	}
	return f
}

// Add starts one more process.
func (f *Fleet) Add(phase Phase) {
	f.t.Helper()
	p := f.start(len(f.procs), phase)
	f.procs = append(f.procs, p)
	f.await(p)
}

// Move replaces all processes by others in a phase, one after the other. Each of them has held locks before
// the next one is replaced.
func (f *Fleet) Move(to Phase) {
	f.t.Helper()
	for i := range f.procs {
		f.Replace(i, to)
	}
}

// Replace replaces one process.
func (f *Fleet) Replace(i int, to Phase) {
	f.t.Helper()
	f.stop(f.procs[i])
	f.procs[i] = f.start(i, to)
	f.await(f.procs[i])
}

// Remove stops the process that was started last.
func (f *Fleet) Remove() {
	last := len(f.procs) - 1
	f.stop(f.procs[last])
	f.procs = f.procs[:last]
}

// AwaitHolds waits until a process that the fleet did not start has held locks.
func (f *Fleet) AwaitHolds(who string) {
	f.t.Helper()
	f.await(&process{who: who})
}

// Note adds the hold of a process that the fleet did not start.
func (f *Fleet) Note(h Hold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds = append(f.holds, h)
	f.held[h.Who]++
	close(f.changed)
	f.changed = make(chan struct{})
}

// Stop stops all processes and returns what they held and where they failed.
func (f *Fleet) Stop() (holds []Hold, failures []string) {
	f.stopAll()
	return f.Held()
}

func (f *Fleet) stopAll() {
	for _, p := range f.procs {
		f.stop(p)
	}
}

var started struct {
	sync.Mutex
	n int
}

func (f *Fleet) start(i int, phase Phase) *process {
	f.t.Helper()
	started.Lock()
	started.n++
	who := fmt.Sprintf("%d-%s-%d", i, phase, started.n)
	started.Unlock()
	task := f.task
	task.Phase = phase
	text, err := json.Marshal(task)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{who: who, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.read(who, lines.Text())
		}
		p.err = p.cmd.Wait()
	}()
	return p
}

// read takes a line of a child.
func (f *Fleet) read(who, line string) {
	var from, until int64
	var name string
	if _, err := fmt.Sscanf(line, "hold %d %d %s", &from, &until, &name); err == nil {
		f.Note(Hold{who, name, time.UnixMicro(from), time.UnixMicro(until)})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, who+": "+strings.TrimPrefix(line, "failed "))
}

// stop ends a process as an orchestrator does: it finishes what it does.
func (f *Fleet) stop(p *process) {
	_ = p.in.Close()
	<-p.ended
	if p.err != nil {
		f.t.Errorf("process %s: %v", p.who, p.err)
		p.err = nil
	}
}

const (
	// enough is how often a process holds a lock before the next one is replaced.
	enough = 5
	// patience bounds the wait for that.
	patience = 3 * time.Minute
)

// await waits until a process has held locks.
func (f *Fleet) await(p *process) {
	f.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		f.mu.Lock()
		n, changed := f.held[p.who], f.changed
		f.mu.Unlock()
		if n >= enough {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			f.t.Fatalf("process %s ended: %v", p.who, p.err)
		case <-late.C:
			f.t.Fatalf("process %s held a lock %d times in %v, want %d", p.who, n, patience, enough)
		}
	}
}

// Held returns what was held so far, and where processes failed.
func (f *Fleet) Held() (holds []Hold, failures []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.holds), slices.Clone(f.failures)
}
