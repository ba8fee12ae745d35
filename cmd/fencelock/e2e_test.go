// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/redisstore"
)

// patience is how long anything may take before a test gives up: far more than
// it needs, because test machines are slow and shared.
const patience = 60 * time.Second

// cutoffs is how many TestCutOffs makes, all at once. Fifty want the machine for
// themselves; a few go with the other tests.
var cutoffs = flag.Int("cutoffs", 4, "how many commands TestCutOffs cuts off from their store")

// binary builds the program once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fencelock-cli")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "fencelock")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// TestMain lets tests run together: they wait for processes most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	silenceDrivers()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, *cutoffs))); err != nil {
		panic(err)
	}
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// server is a redis-server of a test.
type server struct {
	addr string
	cmd  *exec.Cmd
}

func (s *server) url() string { return "redis://" + s.addr }

// startRedis starts a server that ends with the test. extra are options of
// redis-server. Somebody else may take the free port first: then it tries another.
func startRedis(t testing.TB, extra ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed; on Debian: apt-get install redis-server, then go test ./cmd/fencelock")
	}
	for range 10 {
		port := freePort(t)
		s := &server{addr: net.JoinHostPort("127.0.0.1", port)}
		args := []string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no"}
		s.cmd = exec.Command("redis-server", append(args, extra...)...)
		if s.ready(t) {
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

// ready starts the server and says whether it serves.
func (s *server) ready(t testing.TB) bool {
	t.Helper()
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = servers.Start(s.cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	ready := make(chan bool, 2)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				ready <- true
			}
		}
		ready <- false
	}()
	select {
	case ok := <-ready:
		return ok
	case <-time.After(patience):
		t.Fatal("redis-server is not ready")
		return false
	}
}

func (s *server) pause()  { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *server) resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// client is a client of the library on the server, for looking at it from outside.
func (s *server) client(t testing.TB, opts *fencelock.Options) *fencelock.Client {
	t.Helper()
	store, err := redisstore.Open(t.Context(), s.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := fencelock.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = c.Close(ctx), store.Close()
	})
	return c
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// process is the program under test, running.
type process struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err lockedBuffer
	done     chan struct{}
	code     int
}

// begin starts the program with a store.
func begin(t testing.TB, store string, args ...string) *process {
	t.Helper()
	return beginWith(t, store, nil, args...)
}

// beginWith changes the command before it is started.
func beginWith(t testing.TB, store string, change func(*exec.Cmd), args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(cleanEnvironment(), "FENCELOCK_STORE="+store, "XDG_RUNTIME_DIR="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = time.Second // whoever inherits stdout must not hold up a test
	if change != nil {
		change(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// cleanEnvironment is ours without what the program would read.
func cleanEnvironment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "FENCELOCK_") && !strings.HasPrefix(pair, "XDG_") {
			env = append(env, pair)
		}
	}
	return env
}

// end waits for the program and returns its exit code.
func (p *process) end() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%v has not ended\nstdout: %s\nstderr: %s", p.cmd.Args[1:], p.out.String(), p.err.String())
	}
	return p.code
}

// want ends the program and compares its exit code.
func (p *process) want(code int) *process {
	p.t.Helper()
	if got := p.end(); got != code {
		p.t.Fatalf("%v: exit code %d, want %d\nstdout: %s\nstderr: %s", p.cmd.Args[1:], got, code, p.out.String(), p.err.String())
	}
	return p
}

// fencelockCLI runs the program to its end.
func fencelockCLI(t testing.TB, store string, args ...string) *process {
	t.Helper()
	p := begin(t, store, args...)
	p.end()
	return p
}

// contains fails the test unless the text has all of the parts.
func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// until polls for something that another process does.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// alive says whether a process runs: a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return len(after) > 0 && after[0] != 'Z' && after[0] != 'X'
}

// pidIn waits for a file with a process id in it.
func pidIn(t testing.TB, file string) int {
	t.Helper()
	pid := 0
	until(t, file+" has a process id", func() bool {
		text, _ := os.ReadFile(file)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		pid = n
		return err == nil && bytes.HasSuffix(text, []byte("\n"))
	})
	return pid
}

// lockedBuffer is a buffer that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
