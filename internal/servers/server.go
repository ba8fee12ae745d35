// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package servers is the one way to start, stop, pause, kill and cut off the servers of
// tests and measurements. They listen on free loopback ports.
//
//	Server               Start it with                       In
//	PostgreSQL           Postgres, Server.Replica            sql.go
//	pgbouncer            Server.Pgbouncer                    sql.go
//	MariaDB              MariaDB                             sql.go
//	MySQL                MySQL                               sql.go
//	Redis, Valkey        Redis.Start, Valkey.Start           redis.go
//	  with TLS only      Redis.StartTLS                      redis_tls.go
//	  with a clock       Redis.StartClocked                  redis.go
//	  Sentinel           Redis.StartSentinels                redis_sentinel.go
//	  Cluster            Redis.StartCluster                  redis_cluster.go
//	etcd                 Etcd                                etcd.go
//	ZooKeeper            ZooKeeper                           zookeeper.go
//	memcached            Memcached                           memcached.go
//	versitygw (S3)       S3                                  s3.go
//
// Each of them is a Server: it can be killed, started again, paused, wiped, and given a
// Clock that can be set. NewProxy puts a network before a server that can be cut.
// Test starts a server that ends with a test.
//
// A server does not outlive the process that started it, on Linux not even if that
// process is killed. If the programs are not installed the error is ErrMissing and says
// how to install them.
package servers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ErrMissing is returned if the programs of a server are not installed. The
// error says how to install them.
var ErrMissing = errors.New("not installed")

// Server is one server, running or not. Its methods may be called from any goroutine,
// those that start and end it from one at once.
type Server struct {
	// Addr is host and port.
	Addr string
	// Port is the port alone.
	Port int

	name    string
	dir     string
	bin     string         // where its other programs are
	args    []string       // program and arguments
	ready   string         // what it prints when it is ready; empty if answers reports that
	answers func() bool    // reports whether it is ready
	halt    syscall.Signal // ends it without letting it tidy up
	cred    *syscall.Credential
	clock   *Clock // nil for the clock of the machine

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil if it does not run
	up   chan struct{} // closed when cmd has printed that it is ready
	over chan struct{} // closed when cmd has ended
	log  []string      // what it printed last
}

// newServer makes the folder of a server. If we are root it belongs to the user
// that the server runs as, because databases refuse to run as root.
func newServer(name, as string) (*Server, error) {
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{name: name, dir: dir, Addr: loopback(port), Port: port, halt: syscall.SIGKILL}
	if os.Geteuid() != 0 || as == "" {
		return s, nil
	}
	u, err := user.Lookup(as)
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return s, os.Chown(dir, uid, gid)
}

// loopback is an address with a port of this machine.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// command is a command that runs as the server's user and does not outlive us.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = Mortal()
	cmd.SysProcAttr.Credential = s.cred
	return cmd
}

// once runs a command to its end.
func (s *Server) once(program string, args ...string) error {
	return finish(s.command(program, args...))
}

// finish runs a command to its end, for as long as our patience lasts.
func finish(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, patience
	if err := Start(cmd); err != nil {
		return err
	}
	late := time.AfterFunc(3*patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out.Bytes())
	}
	return nil
}

// begin starts the server for the first time.
func (s *Server) begin() (*Server, error) {
	if err := s.Start(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// started starts a server that prepare returns. Another process may take its port
// first: then the next one has another port.
func started[S interface {
	Start() error
	Stop()
}](prepare func() (S, error)) (none S, err error) {
	for range 3 {
		s, failed := prepare()
		if failed != nil {
			return none, failed
		}
		err = s.Start()
		if err == nil {
			return s, nil
		}
		s.Stop()
	}
	return none, err
}

// Start starts a server that does not run, on its port, with the data that it has, and
// waits until it is ready.
func (s *Server) Start() error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.await()
}

// launch starts the server and does not wait for it.
func (s *Server) launch() error {
	cmd := s.command(s.args[0], s.args[1:]...)
	cmd.Env = s.clock.env()
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = Start(cmd)
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return err
	}
	up, over := make(chan struct{}), make(chan struct{})
	s.mu.Lock() // a server that starts dials others, which need to know its process
	s.cmd, s.up, s.over, s.log = cmd, up, over, nil
	s.mu.Unlock()
	go func() {
		seen := s.ready == ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.note(lines.Text())
			if !seen && strings.Contains(lines.Text(), s.ready) {
				seen = true
				close(up)
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = out.Close()
		_ = cmd.Wait()
		close(over)
	}()
	return nil
}

// noted is how many lines of a server's output are kept.
const noted = 200

// note keeps a line of the server's output.
func (s *Server) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
	if len(s.log) > 2*noted {
		s.log = append([]string(nil), s.log[len(s.log)-noted:]...)
	}
}

// Log returns what the server printed last.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// await waits until a server that was launched is ready, and ends one that is not.
func (s *Server) await() error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	s.mu.Lock()
	up, over := s.up, s.over
	s.mu.Unlock()
	for late := time.Now().Add(patience); time.Now().Before(late); {
		select {
		case <-up:
			return nil
		case <-over:
			s.Kill()
			return fmt.Errorf("%s on %s ended before it was ready:\n%s", s.name, s.Addr, s.Log())
		case <-tick.C:
			if s.answers != nil && s.answers() {
				return nil
			}
		}
	}
	s.Kill()
	return fmt.Errorf("%s on %s was not ready within %v:\n%s", s.name, s.Addr, patience, s.Log())
}

// Kill ends the server without letting it tidy up, as a crash does, and returns when it
// has ended. Start starts it again.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd, over := s.cmd, s.over
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s.halt)
	select {
	case <-over:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
	}
}

// Restart kills the server and starts it again: what it had not made durable is lost.
func (s *Server) Restart() error {
	s.Kill()
	return s.Start()
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	s.Kill()
	s.clock.remove()
	_ = os.RemoveAll(s.dir)
}

// Dir is the folder of the server, in which it has its data.
func (s *Server) Dir() string { return s.dir }

// Wipe empties the folder of a server that does not run, but for the named entries.
func (s *Server) Wipe(keep ...string) error {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

// UseClock gives a server a clock when it is started the next time. Stop removes it.
func (s *Server) UseClock(c *Clock) { s.clock = c }

// Clock is the clock that the server was given, nil for that of the machine.
func (s *Server) Clock() *Clock { return s.clock }

// PID is the number of the process that was started, ready or not, 0 if none runs.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Pause stops the server and all its processes as they are, until resume is called. It
// returns when all stand still.
func (s *Server) Pause() (resume func()) {
	pid := s.PID()
	if pid == 0 {
		return func() {}
	}
	all := append([]int{pid}, children(pid)...)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range all {
		AwaitStopped(pid)
	}
	return func() {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// Version returns what the program of the server prints as its version.
func (s *Server) Version() (string, error) {
	out, err := s.command(s.args[0], "--version").Output()
	return strings.TrimSpace(string(out)), err
}

// children returns the processes that a process has started.
func children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// Start starts a command that ends with this process. It starts it on a thread that
// lives as long as we do: the kernel ends such a command with the thread that started
// it, and Go ends threads as it likes.
func Start(cmd *exec.Cmd) error {
	threadOnce.Do(func() {
		go func() {
			runtime.LockOSThread()
			for f := range thread {
				f()
			}
		}()
	})
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = Mortal()
	}
	result := make(chan error)
	thread <- func() { result <- cmd.Start() }
	return <-result
}

var (
	threadOnce sync.Once
	thread     = make(chan func())
)

// AwaitStopped waits until a process that was sent SIGSTOP has stopped. The signal
// stops its threads one after the other, and until then the last thread may still
// answer. Only Linux reports this; elsewhere AwaitStopped returns at once.
func AwaitStopped(pid int) {
	for deadline := time.Now().Add(patience); !stopped(pid) && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
}

// stopped reports whether no thread of a process runs: each is stopped, or dead. A child
// of a server that ended by itself stays a zombie while its parent is stopped.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		if _, state, ok := strings.Cut(string(text), ") "); ok && !strings.ContainsAny(state[:1], "TZX") {
			return false
		}
	}
	return true
}

// patience is how long a server may take to start or to stop, and a set of servers for
// anything: far more than they need, because test machines are slow and shared.
const patience = 60 * time.Second

// Await polls until ok, and returns an error that names what it waited for if that takes
// too long.
func Await(what string, ok func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v unsuccessfully: %s", patience, what)
		}
	}
	return nil
}

// Test starts a server, or several, that end with a test. It skips the test if the
// programs are not installed.
func Test[S interface{ Stop() }](t testing.TB, start func() (S, error)) S {
	t.Helper()
	s, err := start()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Example runs an example that needs a server, and compares what it prints. The example
// finds the server's URL in an environment variable. It has no Output comment, because go
// test cannot skip an example where the server is not installed.
//
// What an example prints is captured by replacing os.Stdout, so the test must not be
// parallel; t.Setenv makes sure of that.
func Example(t *testing.T, example func(), variable, url, want string) {
	t.Helper()
	t.Setenv(variable, url)
	if got := printed(t, example); got != want {
		t.Errorf("the example printed %q, want %q", got, want)
	}
}

// printed returns what f prints.
func printed(t *testing.T, f func()) string {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(out)
		text <- string(all)
	}()
	stdout := os.Stdout
	os.Stdout = in
	func() {
		defer func() { os.Stdout = stdout }()
		f()
	}()
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	return <-text
}
