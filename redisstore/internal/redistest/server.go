// SPDX-License-Identifier: Apache-2.0

// Package redistest starts real servers for tests, on free loopback ports, and
// stops them.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a running redis-server.
type Server struct {
	Addr string
	Port int
	cmd  *exec.Cmd
	dir  string
	args []string
	t    testing.TB
}

// Start starts a server without persistence and stops it when the test ends.
// extra are further options of redis-server.
func Start(t testing.TB, extra ...string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), Port: freePort(t), args: extra}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
	s.run()
	t.Cleanup(s.Kill)
	return s
}

func (s *Server) run() {
	s.t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		s.t.Skip("redis-server is not installed; on Debian: apt-get install redis-server")
	}
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the server and waits until it is ready. Unlike run it may be
// called from any goroutine.
func (s *Server) start() error {
	args := append([]string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no"}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// The server must not outlive a test binary that is killed.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				ready <- nil
			}
		}
		ready <- fmt.Errorf("redis-server ended before it was ready")
	}()
	select {
	case err = <-ready:
	case <-time.After(20 * time.Second):
		err = context.DeadlineExceeded
	}
	if err != nil {
		return fmt.Errorf("redis-server on %s: %w", s.Addr, err)
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

// Stop suspends the server until the returned function is called.
func (s *Server) Stop() (resume func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
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

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
