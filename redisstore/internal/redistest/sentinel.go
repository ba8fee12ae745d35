// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// MasterName is what sentinels call the master.
const MasterName = "locks"

// Sentinels is a running master with two replicas, watched by three sentinels.
type Sentinels struct {
	// Addrs are the addresses of the sentinels.
	Addrs []string
	nodes []*Server
	t     testing.TB
}

// StartSentinels starts a master, two replicas and three sentinels, and returns
// when each of the sentinels would let a replica take over. They do so when the
// master has been silent for as long as down says.
func (f Flavour) StartSentinels(t testing.TB, down time.Duration) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t}
	master := f.Start(t, replicated()...)
	s.nodes = append(s.nodes, master)
	for range 2 {
		s.nodes = append(s.nodes, f.Start(t, replicated("--replicaof", "127.0.0.1", strconv.Itoa(master.Port))...))
	}
	for range 3 {
		port := freePort(t)
		s.Addrs = append(s.Addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		f.startSentinel(t, port, master.Port, down)
	}
	s.waitReady()
	return s
}

// startSentinel starts one sentinel and stops it when the test ends.
func (f Flavour) startSentinel(t testing.TB, port, master int, down time.Duration) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nlogfile %q\n", port, dir, filepath.Join(dir, "log")) +
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2\n", MasterName, master) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", MasterName, down.Milliseconds()) +
		// One that fails, on a slow machine, is tried again after twice this time.
		fmt.Sprintf("sentinel failover-timeout %s 2500\nsentinel parallel-syncs %s 2\n", MasterName, MasterName)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(f.binary(), conf, "--sentinel")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("sentinel %d says:\n%s", port, log)
		}
	})
}

// waitReady waits until every sentinel knows the other two and both replicas,
// and both replicas follow: only then can one of them take over.
func (s *Sentinels) waitReady() {
	s.t.Helper()
	for _, addr := range s.Addrs {
		until(s.t, "sentinel "+addr+" knows everybody", func() bool {
			m, _ := ask(addr, "SENTINEL", "MASTER", MasterName).Result()
			fields := pairs(m)
			return fields["num-slaves"] == "2" && fields["num-other-sentinels"] == "2" &&
				ask(addr, "SENTINEL", "CKQUORUM", MasterName).Err() == nil && s.following(addr) == 2
		})
	}
}

// following counts the replicas that a sentinel sees following the master.
func (s *Sentinels) following(addr string) (n int) {
	list, _ := ask(addr, "SENTINEL", "REPLICAS", MasterName).Slice()
	for _, r := range list {
		if f := pairs(r); f["flags"] == "slave" && f["master-link-status"] == "ok" {
			n++
		}
	}
	return n
}

// pairs reads what sentinels answer: a map, or a list of names and values.
func pairs(reply any) map[string]string {
	out := map[string]string{}
	switch r := reply.(type) {
	case map[any]any:
		for k, v := range r {
			out[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any:
		for i := 0; i+1 < len(r); i += 2 {
			out[fmt.Sprint(r[i])] = fmt.Sprint(r[i+1])
		}
	}
	return out
}

// Master returns the server that all sentinels take for the master.
func (s *Sentinels) Master() *Server {
	s.t.Helper()
	var master *Server
	until(s.t, "the sentinels agree on a master", func() bool {
		master = nil
		for _, addr := range s.Addrs {
			at, _ := ask(addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).StringSlice()
			n := s.node(at)
			if n == nil || master != nil && master != n {
				return false
			}
			master = n
		}
		return true
	})
	return master
}

func (s *Sentinels) node(at []string) *Server {
	for _, n := range s.nodes {
		if len(at) == 2 && at[1] == strconv.Itoa(n.Port) {
			return n
		}
	}
	return nil
}

// PauseReplication makes the replicas miss everything from now on; a sentinel
// still promotes one of them.
func (s *Sentinels) PauseReplication() {
	s.t.Helper()
	if err := s.Master().cutReplicas(); err != nil {
		s.t.Fatal(err)
	}
}

// KillMaster ends the master at once, as a crash does, and returns it.
func (s *Sentinels) KillMaster() *Server {
	s.t.Helper()
	m := s.Master()
	m.Kill()
	return m
}

// WaitPromoted returns the server that takes over from old, when it has.
func (s *Sentinels) WaitPromoted(old *Server) *Server {
	s.t.Helper()
	var promoted *Server
	until(s.t, "a replica takes over", func() bool {
		for _, n := range s.nodes {
			if n != old && n.Info("replication", "role") == "master" {
				promoted = n
			}
		}
		return promoted != nil
	})
	return promoted
}

// Failover makes a replica take over while the master works, and returns when
// the sentinels agree that it has. The old master goes on serving whoever still
// talks to it until a sentinel makes it follow, some seconds later.
func (s *Sentinels) Failover() *Server {
	s.t.Helper()
	old := s.Master()
	until(s.t, "a sentinel begins a failover", func() bool {
		return ask(s.Addrs[0], "SENTINEL", "FAILOVER", MasterName).Err() == nil
	})
	until(s.t, "the sentinels agree on another master", func() bool { return s.Master() != old })
	return s.Master()
}
