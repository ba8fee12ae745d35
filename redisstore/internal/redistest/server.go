// SPDX-License-Identifier: Apache-2.0

// Package redistest starts real servers for tests, on free loopback ports, and
// stops them.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// Server is a running server.
type Server struct {
	Addr    string
	Port    int
	flavour Flavour
	cmd     *exec.Cmd
	dir     string
	args    []string
	env     []string // besides that of the test
	clock   string   // the file that says how far its clock is ahead; empty if it is true
	t       testing.TB
}

// Start starts a server without persistence and stops it when the test ends.
// extra are further options of the server.
func (f Flavour) Start(t testing.TB, extra ...string) *Server {
	t.Helper()
	f.Need(t)
	return (&Server{t: t, flavour: f, dir: t.TempDir(), args: extra}).begin()
}

// begin starts the server on a free port and stops it when the test ends.
func (s *Server) begin() *Server {
	t := s.t
	t.Helper()
	t.Cleanup(s.Kill)
	var err error
	for range 3 { // another test may have taken the port meanwhile
		s.Port = freePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

func (s *Server) run() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the server and waits until it is ready. Unlike run it may be
// called from any goroutine.
func (s *Server) start() error {
	args := append([]string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no"}, s.args...)
	cmd := exec.Command(s.flavour.binary(), args...)
	cmd.Env = append(os.Environ(), s.env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// The server must not outlive a test binary that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	ready := make(chan error, 2)
	go func() {
		last := ""
		for lines := bufio.NewScanner(out); lines.Scan(); last = lines.Text() {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				ready <- nil
			}
		}
		ready <- fmt.Errorf("it ended before it was ready: %s", last)
	}()
	select {
	case err = <-ready:
	case <-time.After(patience):
		err = context.DeadlineExceeded
	}
	if err != nil {
		s.Kill()
		return fmt.Errorf("%s on %s: %w", s.flavour.binary(), s.Addr, err)
	}
	return nil
}

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Restart kills the server and starts it again on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.run()
}

// Stop suspends the server until the returned function is called. It returns when all
// threads are: the signal stops them one after the other, and the last may answer
// meanwhile.
func (s *Server) Stop() (resume func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	servers.AwaitStopped(s.cmd.Process.Pid)
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// Wipe removes what the server wrote to disk.
func (s *Server) Wipe() error {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if err == nil {
			err = os.RemoveAll(s.dir + "/" + e.Name())
		}
	}
	return err
}

// given are the ports that were given out. None is given out twice: a server that
// another test is about to start does not listen yet, and one that is being
// restarted does not for a moment.
var given sync.Map

// freePort returns a port that nobody listens on. It is below those that systems
// give to outgoing connections: there, whoever calls a server that is down can get
// its very port, and is connected with itself.
func freePort(t testing.TB) int {
	t.Helper()
	const first, last = 10000, 32000
	for range 1000 {
		port := first + rand.IntN(last-first)
		if _, before := given.LoadOrStore(port, true); before {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
