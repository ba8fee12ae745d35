// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TickTime is the tickTime of ZooKeeper's servers, unless they are plain.
const TickTime = 200 * time.Millisecond

// javaSettings are how servers run.
type javaSettings struct {
	config  string
	java    []string // arguments
	classes string
}

var (
	// quick servers start fast and notice fast: for tests.
	quick = javaSettings{
		config: fmt.Sprintf("tickTime=%d\ninitLimit=50\nsyncLimit=10\nminSessionTimeout=%d\nmaxSessionTimeout=60000\n",
			TickTime.Milliseconds(), 2*TickTime.Milliseconds()),
		// The last one as docs/zookeeper.md advises.
		java: []string{"-Xmx192m", "-XX:TieredStopAtLevel=1", "-Dznode.container.maxNeverUsedIntervalMs=60000"},
	}
	// plain ones are as ZooKeeper's own example has them, and as fast as Java makes them.
	plain = javaSettings{config: "tickTime=2000\ninitLimit=10\nsyncLimit=5\n", java: []string{"-Xmx256m"}}
)

// classPath is where Java finds ZooKeeper: one archive that names the others, as Debian's
// does, or all archives of a directory.
func classPath(archive string) string {
	if info, err := os.Stat(archive); err == nil && info.IsDir() {
		return filepath.Join(archive, "*")
	}
	// For TLS: those that Debian's does not name.
	for _, name := range []string{"netty-codec.jar", "netty-resolver.jar", "netty-transport-native-unix-common.jar"} {
		archive += string(filepath.ListSeparator) + filepath.Join("/usr/share/java", name)
	}
	return archive
}

// EnsembleServer is one server of an ensemble.
type EnsembleServer struct{ *Server }

// Ensemble is one ZooKeeper server, or several that agree.
type Ensemble struct {
	Servers []*EnsembleServer
}

// ZooKeeper starts n servers that notice failures fast.
func ZooKeeper(n int) (*Ensemble, error) { return zooKeeper(n, quick, direct) }

// ZooKeeperWith is ZooKeeper for servers with more lines in their configuration file. Those
// that begin with -D are arguments of Java.
func ZooKeeperWith(n int, lines ...string) (*Ensemble, error) {
	with := quick
	with.java = slices.Clone(quick.java)
	for _, line := range lines {
		if strings.HasPrefix(line, "-D") {
			with.java = append(with.java, line)
		} else {
			with.config += line + "\n"
		}
	}
	return zooKeeper(n, with, direct)
}

// PlainZooKeeper is ZooKeeper for servers that are measured.
func PlainZooKeeper(n int) (*Ensemble, error) { return zooKeeper(n, plain, direct) }

// ZooKeeperBehind is ZooKeeper for servers that reach each other elsewhere: front returns
// the port by which the others reach a port of server i, as that of a proxy.
func ZooKeeperBehind(n int, front func(i, port int) (int, error)) (*Ensemble, error) {
	return zooKeeper(n, quick, front)
}

// front is the port that stands for a port of server i.
type front func(i, port int) (int, error)

func direct(_, port int) (int, error) { return port, nil }

func zooKeeper(n int, with javaSettings, at front) (*Ensemble, error) {
	archive, err := zookeeper.find()
	if err != nil {
		return nil, err
	}
	with.classes = classPath(archive)
	java, err := java.find()
	if err != nil {
		return nil, err
	}
	e := &Ensemble{}
	if err := e.start(java, n, with, at); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

// peerPorts are where a server listens for the others, and by which ports they reach it.
type peerPorts struct{ follow, elect, seenFollow, seenElect int }

func (e *Ensemble) start(java string, n int, with javaSettings, at front) error {
	var ports []peerPorts
	for i := range n {
		s, err := newServer("zookeeper", "")
		if err != nil {
			return err
		}
		z := &EnsembleServer{s}
		s.answers = func() bool { return z.Mode() != "" }
		e.Servers = append(e.Servers, z)
		p, err := portsOf(i, at)
		if err != nil {
			return err
		}
		ports = append(ports, p)
	}
	var all []*Server
	for i, s := range e.Servers {
		var members strings.Builder
		for j, p := range ports {
			follow, elect := p.seenFollow, p.seenElect
			if i == j {
				follow, elect = p.follow, p.elect // where it listens
			}
			if n > 1 {
				fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", j+1, follow, elect)
			}
		}
		config, file := fmt.Sprintf("%sdataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"+
			"maxClientCnxns=0\n4lw.commands.whitelist=*\n%s", with.config, s.dir, s.Port, members.String()), filepath.Join(s.dir, "zoo.cfg")
		s.args = append(append([]string{java}, with.java...), "-XX:+UseSerialGC", "-cp", with.classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
		err := errors.Join(os.WriteFile(file, []byte(config), 0o644), os.WriteFile(filepath.Join(s.dir, "myid"), []byte(strconv.Itoa(i+1)), 0o644))
		if err == nil {
			err = s.launch()
		}
		if err != nil {
			return err
		}
		all = append(all, s.Server)
	}
	return awaitAll(all)
}

// portsOf chooses the ports of server i for the others.
func portsOf(i int, at front) (p peerPorts, err error) {
	for _, port := range []struct{ listen, seen *int }{{&p.follow, &p.seenFollow}, {&p.elect, &p.seenElect}} {
		*port.listen, err = FreePort()
		if err != nil {
			return p, err
		}
		*port.seen, err = at(i, *port.listen)
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// Addrs returns the addresses for clients.
func (e *Ensemble) Addrs() (addrs []string) {
	for _, s := range e.Servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Ask sends one of the four-letter commands.
func (s *EnsembleServer) Ask(command string) string {
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
func (s *EnsembleServer) Mode() string {
	for line := range strings.Lines(s.Ask("srvr")) {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "Mode: "); ok {
			return mode
		}
	}
	return ""
}

// Leader returns the server that leads, nil if none does.
func (e *Ensemble) Leader() *EnsembleServer {
	for _, s := range e.Servers {
		if s.PID() != 0 && s.Mode() == "leader" {
			return s
		}
	}
	return nil
}

// Wipe removes the data of a server that does not run.
func (s *EnsembleServer) Wipe() error { return s.Server.Wipe("zoo.cfg", "myid") }

// Stop ends all servers and removes what they wrote.
func (e *Ensemble) Stop() {
	for _, s := range e.Servers {
		s.Stop()
	}
}

// Received returns how many requests the server has received on the connections that
// it has now and that have a session.
func (s *EnsembleServer) Received() (n int) {
	for line := range strings.Lines(s.Ask("cons")) {
		if _, rest, ok := strings.Cut(line, "recved="); ok && strings.Contains(line, "sid=") {
			count, _, _ := strings.Cut(rest, ",")
			one, _ := strconv.Atoi(count)
			n += one
		}
	}
	return n
}
