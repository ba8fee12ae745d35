// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// peer is a process of another library as one scene uses it, with separate actors.
type peer struct {
	*process
	actors string
}

// process is a process with a client of another library.
type process struct {
	// ID is the id of its client. With Redisson it begins the holder ids of its threads.
	ID string

	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[string]chan answer
	over    bool
}

// peerOptions are what a peer is started with.
type peerOptions struct {
	Version  string
	Servers  []string      // one, or nodes of a cluster
	Watchdog time.Duration // lockWatchdogTimeout, 30s by default
	Timeout  time.Duration // how long Redisson waits for an answer, 3s by default
}

// start starts a process that ends with the test, which is skipped if Java or Maven is not
// installed.
func start(t testing.TB, o peerOptions) *process {
	t.Helper()
	command, err := command("redisson", o.Version)
	if err != nil {
		t.Skip(err)
	}
	if o.Watchdog == 0 {
		o.Watchdog = 30 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	return launch(t, command, strings.Join(o.Servers, ","), millis(o.Watchdog), millis(o.Timeout))
}

// launch starts a process by a command and more arguments.
func launch(t testing.TB, command []string, more ...string) *process {
	t.Helper()
	args := append(command[1:len(command):len(command)], more...)
	p := &process{t: t, cmd: exec.Command(command[0], args...), waiting: map[string]chan answer{}}
	var err error
	p.in, err = p.cmd.StdinPipe()
	must.OK(t, err)
	out, err := p.cmd.StdoutPipe()
	must.OK(t, err)
	p.cmd.Stderr, p.cmd.WaitDelay = &errorsOf{t: t}, 5*time.Second
	must.OK(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	late := time.AfterFunc(patience, p.Kill)
	ready := lines.Scan()
	if late.Stop(); !ready {
		t.Fatalf("%s ended before it was ready, or was not ready within %v", command[0], patience)
	}
	p.ID = strings.TrimPrefix(lines.Text(), "ready ")
	go p.read(lines)
	return p
}

// errorsOf logs what a process writes, as far as the test has not ended.
type errorsOf struct{ t testing.TB }

// Write implements io.Writer.
func (e *errorsOf) Write(text []byte) (int, error) {
	if e.t.Context().Err() == nil {
		e.t.Logf("peer: %s", text)
	}
	return len(text), nil
}

// answer is the answer to a request. Begin and End are when the peer began and ended it, by
// the clock of this machine.
type answer struct {
	Word, Value string
	Begin, End  time.Time
}

// Err returns an error unless the answer is ok.
func (a answer) Err() error {
	if a.Word != "ok" {
		return fmt.Errorf("%s %s", a.Word, a.Value)
	}
	return nil
}

// held returns from when until when a thread held a lock, if that is what the answer is.
func (a answer) held() (from, until time.Time, err error) {
	if err := a.Err(); err != nil {
		return from, until, err
	}
	first, last, found := strings.Cut(a.Value, " ")
	if !found {
		return from, until, fmt.Errorf("the lock was %s", a.Value)
	}
	return instant(first), instant(last), nil
}

func (p *process) read(lines *bufio.Scanner) {
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), " ", 5)
		if len(words) < 5 {
			continue
		}
		got := answer{Word: words[1], Begin: instant(words[2]), End: instant(words[3]), Value: words[4]}
		p.mu.Lock()
		c := p.waiting[words[0]]
		delete(p.waiting, words[0])
		p.mu.Unlock()
		if c != nil {
			c <- got
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, c := range p.waiting {
		c <- answer{Word: "ended"}
	}
}

func instant(micros string) time.Time {
	n, _ := strconv.ParseInt(micros, 10, 64)
	return time.UnixMicro(n)
}

// Ask sends a request and returns where its answer will come.
func (p *peer) Ask(actor, verb, kind, name string, args ...any) <-chan answer {
	p.t.Helper()
	c := make(chan answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		c <- answer{Word: "ended"}
		return c
	}
	p.last++
	id := strconv.Itoa(p.last)
	p.waiting[id] = c
	line := []any{id, p.actors + actor, verb, kind, name}
	if _, err := fmt.Fprintln(p.in, append(line, args...)...); err != nil && !errors.Is(err, syscall.EPIPE) {
		p.t.Error(err)
	}
	return c
}

// patience bounds every wait of a test: what is expected to come comes far earlier.
const patience = 3 * time.Minute

// Do sends a request and waits for its answer.
func (p *peer) Do(actor, verb, kind, name string, args ...any) answer {
	p.t.Helper()
	return await(p.t, verb+" "+name, p.Ask(actor, verb, kind, name, args...))
}

// Must is Do for a request that must be answered with ok.
func (p *peer) Must(actor, verb, kind, name string, args ...any) answer {
	p.t.Helper()
	a := p.Do(actor, verb, kind, name, args...)
	if err := a.Err(); err != nil {
		p.t.Fatalf("%s %s %s %s: %v", actor, verb, kind, name, err)
	}
	return a
}

// Kill ends the process as a crash does.
func (p *process) Kill() { _ = p.cmd.Process.Kill() }

// Pause stops the process until the returned function is called.
func (p *process) Pause() (resume func()) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	return func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
}

// await returns what comes over a channel.
func await[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("%s: nothing came for %v", what, patience)
	}
	panic("unreachable")
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
