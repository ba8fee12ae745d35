// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package zktest starts real ZooKeeper servers for tests and measurements, on free
// loopback ports, and stops them.
package zktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// TickTime is the tickTime of the servers, unless they are plain.
const TickTime = 200 * time.Millisecond

// settings are how servers run.
type settings struct {
	config string
	java   []string // arguments
}

var (
	// quick servers start fast and notice fast: for tests.
	quick = settings{
		config: fmt.Sprintf("tickTime=%d\ninitLimit=50\nsyncLimit=10\nminSessionTimeout=%d\nmaxSessionTimeout=60000\n",
			TickTime.Milliseconds(), 2*TickTime.Milliseconds()),
		java: []string{"-Xmx192m", "-XX:TieredStopAtLevel=1"},
	}
	// plain ones are as ZooKeeper's own example has them, and as fast as Java makes them.
	plain = settings{config: "tickTime=2000\ninitLimit=10\nsyncLimit=5\n", java: []string{"-Xmx256m"}}
)

// jar is where Debian's package zookeeper has it.
const jar = "/usr/share/java/zookeeper.jar"

// Missing says what is missing to start a server, and how to get it, or "".
func Missing() string {
	if _, err := os.Stat(jar); err != nil {
		return "zookeeper is not installed; on Debian: apt-get install zookeeper"
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "java is not installed; on Debian: apt-get install default-jre-headless"
	}
	return ""
}

// Server is one server of an ensemble.
type Server struct {
	// Addr is host:port for clients.
	Addr string
	dir  string
	java []string
	cmd  *exec.Cmd
}

// Ensemble is one server, or several that agree.
type Ensemble struct {
	Servers []*Server
	dir     string
}

// Addrs returns the addresses for clients.
func (e *Ensemble) Addrs() (addrs []string) {
	for _, s := range e.Servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Start starts n servers and waits until they serve. Stop ends them.
func Start(ctx context.Context, n int) (*Ensemble, error) {
	return start(ctx, n, quick, direct)
}

// StartPlain is Start for servers that are measured.
func StartPlain(ctx context.Context, n int) (*Ensemble, error) { return start(ctx, n, plain, direct) }

// front is the port that stands for a port of server i.
type front func(i, port int) (int, error)

func direct(_, port int) (int, error) { return port, nil }

// StartBehind is Start for servers that reach each other elsewhere: front is asked for
// the port that stands for a port of server i, as that of a proxy.
func StartBehind(ctx context.Context, n int, front func(i, port int) (int, error)) (*Ensemble, error) {
	return start(ctx, n, quick, front)
}

func start(ctx context.Context, n int, with settings, at front) (*Ensemble, error) {
	if why := Missing(); why != "" {
		return nil, errors.New(why)
	}
	dir, err := os.MkdirTemp("", "zktest")
	if err != nil {
		return nil, err
	}
	e := &Ensemble{dir: dir}
	if err := e.start(ctx, n, with, at); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

func (e *Ensemble) start(ctx context.Context, n int, with settings, at front) error {
	ports, err := freePorts(3 * n)
	if err != nil {
		return err
	}
	seen := slices.Clone(ports)
	for i := n; i < 3*n; i++ {
		if seen[i], err = at(i%n, ports[i]); err != nil {
			return err
		}
	}
	for i := range n {
		var members strings.Builder
		for j := 0; j < n && n > 1; j++ {
			there := seen
			if i == j {
				there = ports // where it listens
			}
			fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", j+1, there[n+j], there[2*n+j])
		}
		s := &Server{
			Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])), dir: filepath.Join(e.dir, strconv.Itoa(i+1)), java: with.java,
		}
		e.Servers = append(e.Servers, s)
		config := fmt.Sprintf("%sdataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"+
			"maxClientCnxns=0\n4lw.commands.whitelist=*\n%s", with.config, s.dir, ports[i], members.String())
		err := errors.Join(os.MkdirAll(s.dir, 0o755),
			os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), []byte(config), 0o644),
			os.WriteFile(filepath.Join(s.dir, "myid"), []byte(strconv.Itoa(i+1)), 0o644))
		if err != nil {
			return err
		}
		if err := s.Run(); err != nil {
			return err
		}
	}
	for _, s := range e.Servers {
		if err := s.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Run starts the server, again after Kill. It does not wait for it.
func (s *Server) Run() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command("java", append(slices.Clone(s.java), "-XX:+UseSerialGC", "-cp", jar,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir, "zoo.cfg"))...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	return servers.Start(s.cmd)
}

// Await waits until the server serves.
func (s *Server) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.Mode() == "" {
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("zookeeper on %s does not serve: %w\n%s", s.Addr, ctx.Err(), text)
		}
	}
	return nil
}

// Ask sends one of the four-letter commands.
func (s *Server) Ask(command string) string {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(conn, command)
	text, _ := io.ReadAll(conn)
	return string(text)
}

// Mode returns leader, follower or standalone, or "" if it does not serve.
func (s *Server) Mode() string {
	for line := range strings.Lines(s.Ask("srvr")) {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "Mode: "); ok {
			return mode
		}
	}
	return ""
}

// Leader returns the server that leads, nil if none does.
func (e *Ensemble) Leader() *Server {
	for _, s := range e.Servers {
		if s.cmd != nil && s.Mode() == "leader" {
			return s
		}
	}
	return nil
}

// Kill ends a server at once.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// PID returns the number of the process, 0 if it does not run.
func (s *Server) PID() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Wipe removes the data of a server that does not run.
func (s *Server) Wipe() error { return os.RemoveAll(filepath.Join(s.dir, "version-2")) }

// Pause stops a server until the returned function is called. It returns when every
// thread has stopped.
func (s *Server) Pause() (resume func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	servers.AwaitStopped(s.cmd.Process.Pid)
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// Stop ends all servers and removes what they wrote.
func (e *Ensemble) Stop() {
	for _, s := range e.Servers {
		s.Kill()
	}
	_ = os.RemoveAll(e.dir)
}

func freePorts(n int) (ports []int, err error) {
	for range n {
		port, err := servers.FreePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// Received returns how many requests the server has received on the connections that
// it has now and that have a session.
func (s *Server) Received() (n int) {
	for line := range strings.Lines(s.Ask("cons")) {
		if _, rest, ok := strings.Cut(line, "recved="); ok && strings.Contains(line, "sid=") {
			count, _, _ := strings.Cut(rest, ",")
			one, _ := strconv.Atoi(count)
			n += one
		}
	}
	return n
}
