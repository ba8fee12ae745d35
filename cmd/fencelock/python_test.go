// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// pythonWorld is Redis with two servers behind a balancer, and a Go client that uses the same locks.
type pythonWorld struct {
	*testing.T
	redis    *redisServer
	ttl      time.Duration // of the Python clients
	token    string
	servers  []*process
	balancer *balancer
	other    *fencelock.Client
}

const (
	pythonTTL     = 2 * time.Second
	pythonLockTTL = 5 * time.Second
)

func newPythonWorld(t *testing.T, lockTTL time.Duration) *pythonWorld {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed; install it and run: go test ./cmd/fencelock -run TestPythonClient")
	}
	t.Parallel()
	w := &pythonWorld{T: t, redis: startRedis(t), ttl: pythonTTL}
	users := filepath.Join(t.TempDir(), "users.json")
	made := fencelockCLI(t, w.redis.url(), "serve", "token", "ann", "--may", "take", "--users", users).want(0)
	w.token = strings.TrimSpace(made.out.String())
	var addrs []string
	for range 2 {
		p, url := serving(t, w.redis, "--users", users, "--lock-ttl", lockTTL.String())
		w.servers = append(w.servers, p)
		addrs = append(addrs, strings.TrimPrefix(url, "http://"))
	}
	w.balancer = newBalancer(t, addrs...)
	w.other = w.redis.client(t, &fencelock.Options{TTL: pythonTTL})
	return w
}

// pythonHolder is a Python process that holds a lock.
type pythonHolder struct {
	*pythonWorld
	p  *process
	in io.Writer
}

func (w *pythonWorld) holder(lock string) *pythonHolder {
	cmd := exec.Command("python3", "testdata/holder.py", w.balancer.url(), w.token, lock, fmt.Sprint(w.ttl.Seconds()))
	in, err := cmd.StdinPipe()
	must.OK(w, err)
	return &pythonHolder{w, beginProgram(w, cmd), in}
}

// send sends a command.
func (h *pythonHolder) send(command string) {
	h.Helper()
	if _, err := io.WriteString(h.in, command+"\n"); err != nil {
		h.Fatal(err)
	}
}

// wrote returns the words of the last line that begins with a word, or nil.
func (h *pythonHolder) wrote(word string) (words []string) {
	for line := range strings.Lines(h.p.out.String()) {
		if fields := strings.Fields(line); strings.HasSuffix(line, "\n") && fields[0] == word {
			words = fields
		}
	}
	return words
}

// expect waits for a line, and returns its words. What succeeds does not write the name of an error instead.
func (h *pythonHolder) expect(word string) []string {
	h.Helper()
	failed := func() bool {
		return slices.Contains([]string{"held", "valid", "released"}, word) &&
			slices.ContainsFunc([]string{"Error", "Busy", "Denied", "Lost", "Unavailable"}, func(name string) bool { return h.wrote(name) != nil })
	}
	for end := time.Now().Add(patience); h.wrote(word) == nil; time.Sleep(5 * time.Millisecond) {
		if failed() || time.Now().After(end) {
			h.Fatalf("the Python process does not write %s, but:\n%s%s%s", word, h.p.out.String(), h.p.err.String(), h.logs())
		}
	}
	return h.wrote(word)
}

// logs is what the servers wrote.
func (w *pythonWorld) logs() string {
	var all strings.Builder
	for i, p := range w.servers {
		fmt.Fprintf(&all, "server %d:\n%s", i, p.err.String())
	}
	return all.String()
}

// at is when a line was written.
func (h *pythonHolder) at(words []string) time.Time {
	h.Helper()
	seconds, err := strconv.ParseFloat(words[len(words)-1], 64)
	must.OK(h, err)
	return time.UnixMicro(int64(seconds * 1e6))
}

// next waits for the lock as the other client.
func (w *pythonWorld) next(lock string) (*fencelock.Lease, time.Time) {
	w.Helper()
	l := lockSoon(w, w.other, lock)
	return l, time.Now()
}

// TestPythonClient runs the Python client against real servers, with the faults that Go
// programs are tested with.
func TestPythonClient(t *testing.T) {
	t.Run("guard example", func(t *testing.T) {
		w := newPythonWorld(t, 30*time.Second)
		p := beginProgram(t, exec.Command("python3", "../../clients/python/guard_example.py", w.balancer.url(), w.token)).want(0)
		contains(t, p.out.String(), "rejected: token ", "pieces: 98\n")
	})
	t.Run("contended", func(t *testing.T) {
		h := newPythonWorld(t, pythonLockTTL).holder("x")
		h.send("lock")
		token := h.expect("held")[1]
		got := make(chan *fencelock.Lease)
		go func() {
			defer close(got) // a failure ends the goroutine
			l, _ := h.next("x")
			got <- l
		}()
		h.expect("contended")
		h.send("release")
		h.expect("released")
		if l := <-got; l != nil && l.Token().String() <= token {
			t.Errorf("token %v after %s", l.Token(), token)
		}
	})
	t.Run("server killed", pythonServerKilled)
	t.Run("client paused", pythonPaused)
	t.Run("client cut off", pythonCutOff)
	t.Run("client killed", func(t *testing.T) {
		h := newPythonWorld(t, pythonLockTTL).holder("x")
		h.send("lock")
		h.expect("held")
		_ = h.p.cmd.Process.Kill()
		h.next("x")
	})
}

// TestPythonIsOfAnOldVersion: the client has no syntax that is newer than the version which its page names.
func TestPythonIsOfAnOldVersion(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../clients/python/README.md")
	must.OK(t, err)
	version := regexp.MustCompile(`Python 3\.(\d+) or later`).FindSubmatch(page)
	if version == nil {
		t.Fatal("clients/python/README.md names no version of Python")
	}
	files, err := filepath.Glob("../../clients/python/*.py")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	cmd := python(t, "import ast\nfor f in sys.argv[2:]:\n    ast.parse(open(f, encoding='utf-8').read(), f, feature_version=(3, int(sys.argv[1])))", append([]string{string(version[1])}, files...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// pythonServerKilled: the lease goes on at the other server, with its token, for longer than the store
// keeps what the first one had.
func pythonServerKilled(t *testing.T) {
	const lockTTL = 8 * time.Second
	w := newPythonWorld(t, lockTTL)
	w.ttl = lockTTL / 2 // the longest that the servers take: a busy machine renews late
	h := w.holder("x")
	h.send("lock")
	token := h.expect("held")[1]
	for _, p := range h.servers[:1] {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	time.Sleep(lockTTL + w.ttl)
	h.send("check")
	if got := h.expect("valid")[1]; got != token || h.wrote("lost") != nil {
		t.Errorf("token %s, then %s: %s", token, got, h.p.out.String())
	}
	if _, err := h.other.Mutex("x").TryLock(t.Context()); err == nil {
		t.Error("another client got the lock")
	}
	h.send("release")
	h.expect("released")
	h.next("x")
}

// pythonPaused: a process that was paused for longer than its lease knows it when it goes on.
func pythonPaused(t *testing.T) {
	h := newPythonWorld(t, pythonLockTTL).holder("x")
	h.send("lock")
	h.expect("held")
	_ = h.p.cmd.Process.Signal(syscall.SIGSTOP)
	servers.AwaitStopped(h.p.cmd.Process.Pid)
	h.next("x")
	_ = h.p.cmd.Process.Signal(syscall.SIGCONT)
	h.send("check")
	h.expect("Lost")
	h.expect("lost")
}

// pythonCutOff: a client that reaches no server is notified before another one can hold the lock.
func pythonCutOff(t *testing.T) {
	const lockTTL = 16 * time.Second
	w := newPythonWorld(t, lockTTL)
	w.ttl = lockTTL / 2 // a tenth of it is the time that a busy machine has for the notice
	h := w.holder("x")
	h.send("lock")
	h.expect("held")
	_ = h.balancer.l.Close()
	h.balancer.cut("")
	_, granted := h.next("x")
	if lost := h.at(h.expect("lost")); lost.After(granted) {
		t.Errorf("the holder was notified %v after the lock was granted to another", lost.Sub(granted))
	}
}
