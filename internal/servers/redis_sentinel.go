// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// MasterName is what the sentinels of StartSentinels call the master.
const MasterName = "locks"

// Sentinels is a master with two replicas, watched by three sentinels.
type Sentinels struct {
	// Addrs are the addresses of the sentinels.
	Addrs []string
	// Nodes are the servers; the first was started as the master.
	Nodes    []*RedisServer
	watchers []*RedisServer
}

// StartSentinels starts a master, two replicas and three sentinels, and returns when each
// of the sentinels would let a replica take over. They do so when the master has been
// silent for as long as down.
func (f Flavor) StartSentinels(down time.Duration) (*Sentinels, error) {
	s := &Sentinels{}
	err := s.start(f, down)
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Sentinels) start(f Flavor, down time.Duration) error {
	args := replicated()
	for range 3 {
		n, err := f.Start(args...)
		if err != nil {
			return err
		}
		s.Nodes = append(s.Nodes, n)
		args = replicated("--replicaof", "127.0.0.1", strconv.Itoa(s.Nodes[0].Port))
	}
	for range 3 {
		w, err := f.StartSentinel(MasterName, s.Nodes[0].Port, down)
		if err != nil {
			return err
		}
		s.Addrs, s.watchers = append(s.Addrs, w.Addr), append(s.watchers, w)
	}
	return AwaitSentinels(MasterName, s.Addrs, 2)
}

// Stop ends all servers.
func (s *Sentinels) Stop() {
	for _, n := range append(s.watchers, s.Nodes...) {
		n.Stop()
	}
}

// Log returns what the sentinels printed last.
func (s *Sentinels) Log() (text string) {
	for _, w := range s.watchers {
		text += fmt.Sprintf("sentinel %s:\n%s\n", w.Addr, w.Log())
	}
	return text
}

// StartSentinel starts a sentinel that watches a master called name. It promotes a replica
// when the master has been silent for as long as down, if two sentinels agree.
func (f Flavor) StartSentinel(name string, master int, down time.Duration) (*RedisServer, error) {
	return started(func() (*RedisServer, error) {
		s, err := f.New()
		if err != nil {
			return nil, err
		}
		s.name = "sentinel"
		conf := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nprotected-mode no\n", s.Port, s.dir) +
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2\n", name, master) +
			fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", name, down.Milliseconds()) +
			// A failover that fails, on a busy machine, is tried again after twice this.
			fmt.Sprintf("sentinel failover-timeout %s 2500\nsentinel parallel-syncs %s 2\n", name, name)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			s.Stop()
			return nil, err
		}
		s.args = []string{s.args[0], conf, "--sentinel"}
		s.ready = "Sentinel ID is"
		return s, nil
	})
}

// AwaitSentinels waits until every sentinel knows the others and that many replicas that
// follow: only then can one of them take over.
func AwaitSentinels(name string, addrs []string, replicas int) error {
	for _, addr := range addrs {
		if err := Await("sentinel "+addr+" knows all servers", func() bool {
			m := ask(addr, "SENTINEL", "MASTER", name).Pairs()
			return m["num-slaves"] == strconv.Itoa(replicas) && m["num-other-sentinels"] == strconv.Itoa(len(addrs)-1) &&
				ask(addr, "SENTINEL", "CKQUORUM", name).Err() == nil && following(name, addr) == replicas
		}); err != nil {
			return err
		}
	}
	return nil
}

// following counts the replicas that a sentinel sees following the master.
func following(name, addr string) (n int) {
	list, _ := ask(addr, "SENTINEL", "REPLICAS", name).Slice()
	for _, r := range list {
		if f := pairs(r); f["flags"] == "slave" && f["master-link-status"] == "ok" {
			n++
		}
	}
	return n
}

// Master returns the server that all sentinels take for the master.
func (s *Sentinels) Master() (master *RedisServer, err error) {
	err = Await("the sentinels agree on a master", func() bool {
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
	return master, err
}

// Knows reports whether all sentinels take a server for the master.
func (s *Sentinels) Knows(master *RedisServer) bool {
	for _, addr := range s.Addrs {
		if at, _ := ask(addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).StringSlice(); s.node(at) != master {
			return false
		}
	}
	return true
}

func (s *Sentinels) node(at []string) *RedisServer {
	for _, n := range s.Nodes {
		if len(at) == 2 && at[1] == strconv.Itoa(n.Port) {
			return n
		}
	}
	return nil
}

// AwaitPromoted returns the server that takes over from old, when it has.
func (s *Sentinels) AwaitPromoted(old *RedisServer) (promoted *RedisServer, err error) {
	err = Await("a replica takes over", func() bool {
		for _, n := range s.Nodes {
			if n != old && n.Info("replication", "role") == "master" {
				promoted = n
			}
		}
		return promoted != nil
	})
	return promoted, err
}

// Failover makes a replica take over while the master works, and returns when the
// sentinels agree that it has. The old master still serves clients that are connected to
// it until a sentinel makes it follow, some seconds later.
func (s *Sentinels) Failover() error {
	old, err := s.Master()
	if err != nil {
		return err
	}
	if err := Await("a sentinel begins a failover", func() bool {
		return ask(s.Addrs[0], "SENTINEL", "FAILOVER", MasterName).Err() == nil
	}); err != nil {
		return err
	}
	return Await("the sentinels agree on another master", func() bool {
		now, err := s.Master()
		return err == nil && now != old
	})
}
