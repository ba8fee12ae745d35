// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore"
)

// patience is how long anything may take before a test gives up: far more than
// it needs, because test machines are slow and shared.
const patience = 60 * time.Second

// cutoffs is how many TestCutOffs makes, all at once. Fifty want the machine for
// themselves; a few go with the other tests.
var cutoffs = flag.Int("cutoffs", 4, "how many commands TestCutOffs cuts off from their store")

// binaryVariable names a program that is built already.
const binaryVariable = "FENCELOCK_TEST_BINARY"

// built is the folder of the program, "" if no test needed it.
var built string

// binary builds the program once, in a folder that every user can pass.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(binaryVariable); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "fencelock-cli")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "fencelock")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// TestMain lets tests run together: they wait for processes most of the time.
func TestMain(m *testing.M) {
	if config := os.Getenv(goWorkerVariable); config != "" {
		runGoWorker(config)
	}
	flag.Parse()
	silenceDrivers()
	catchIgnoredHangup()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, *cutoffs))); err != nil {
		panic(err)
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// catchIgnoredHangup makes the processes of the tests begin with the default action of
// HUP. Tests that run under nohup ignore HUP, and a process inherits that; it does not
// inherit a handler.
func catchIgnoredHangup() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// redisServer is a Redis server of a test.
type redisServer struct {
	*servers.RedisServer
	addr   string
	resume func() // after pause
}

func (s *redisServer) url() string { return "redis://" + s.addr }

// startRedis starts a server that ends with the test. extra are arguments of its command
// line.
func startRedis(t testing.TB, extra ...string) *redisServer {
	t.Helper()
	s := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start(extra...) })
	return &redisServer{RedisServer: s, addr: s.Addr, resume: func() {}}
}

func (s *redisServer) pause() { s.resume = s.Pause() }

// client is a client of the library on the server, for inspecting it from outside.
func (s *redisServer) client(t testing.TB, opts *fencelock.Options) *fencelock.Client {
	t.Helper()
	store, err := redisstore.Open(t.Context(), s.url(), nil)
	must.OK(t, err)
	c, err := fencelock.New(store, opts)
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = c.Close(ctx), store.Close()
	})
	return c
}

func freePort(t testing.TB) string {
	t.Helper()
	port, err := servers.FreePort()
	must.OK(t, err)
	return strconv.Itoa(port)
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
	must.OK(t, err)
	p := &process{t: t, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(cleanEnvironment(), "FENCELOCK_STORE="+store, "XDG_RUNTIME_DIR="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = time.Second // a process that inherits stdout must not hold up a test
	if change != nil {
		change(p.cmd)
	}
	must.OK(t, p.cmd.Start())
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
		p.t.Fatalf("%v has not ended\n%s", p.cmd.Args[1:], p.hung())
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
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// alive reports whether a process runs: a zombie does not.
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

// proxy is a network before a server that can be cut without notice: what is sent is
// dropped, and connections stay open.
type proxy struct {
	*servers.Proxy
	addr string
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	p, err := servers.NewProxy(to)
	must.OK(t, err)
	t.Cleanup(p.Close)
	return &proxy{p, p.Addr}
}

func (p *proxy) cut() { p.Set(servers.State{DropRequests: true, DropReplies: true}) }

// heal lets everything through again, on new connections.
func (p *proxy) heal() {
	p.Set(servers.State{})
	p.Cut()
}
