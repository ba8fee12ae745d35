// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestFactsOfCurator shows what curatorstore takes for granted about the other programs, and no cell
// shows.
func TestFactsOfCurator(t *testing.T) {
	byHand(t)
	stage := curatorStage(t, curatorNewest)
	for name, do := range map[string]func(*scene){
		"data of a node":                  dataOfNodes,
		"names of semaphores":             namesOfSemaphores,
		"order after the last number":     orderAfterTheLast,
		"kazoo's read lock":               kazooReads,
		"latch steps down when suspended": latchStepsDown,
		"compression":                     compression,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stage.play(t, "mutex", do)
		})
	}
}

// dataOfNodes: by default a node has the address of the process, a revocable one nothing, a leader its id.
func dataOfNodes(s *scene) {
	java := s.java()
	read := func(kind string) string {
		data, _, err := s.tree().conn.Get(s.at(s.name + "-" + kind).first())
		must.OK(s, err)
		return string(data)
	}
	java.Must("a", "LOCK", "mutex", s.path()+"-plain")
	if got := read("plain"); !regexp.MustCompile(`^[0-9a-f.:]+$`).MatchString(got) {
		s.Errorf("the node of an InterProcessMutex has %q, want an address", got)
	}
	java.Must("a", "REVOCABLE", "mutex", s.path()+"-revocable")
	java.Must("a", "LOCK", "mutex", s.path()+"-revocable")
	if got := read("revocable"); got != "" {
		s.Errorf("the node of a revocable lock has %q, want nothing", got)
	}
	for _, kind := range []string{"latch", "select"} {
		java.Must("a", "LOCK", kind, s.path()+"-"+kind)
		if got := read(kind); got != "java" {
			s.Errorf("the node of a %s has %q, want its id", kind, got)
		}
		java.Must("a", "UNLOCK", kind, s.path()+"-"+kind)
	}
}

// compression: with enableCompression Java cannot read the node of a Go claim, so it cannot wait for it.
// It leaves no node.
func compression(s *scene) {
	java := &peer{startCurator(s, s.version, s.tree().ensemble.Addrs(), "compress"), ""}
	l := s.lock(s.client(ttl))
	if got := java.Do("a", "LOCK", s.kind, s.path()); got.Word != "err" {
		s.Errorf("a lock behind Go: %v; if Java can read the node, docs/sharing.md can leave that out", got)
	}
	s.queued(1)
	s.unlock(l)
	java.Must("a", "LOCK", s.kind, s.path())
	java.Must("a", "UNLOCK", s.kind, s.path())
}

// namesOfSemaphores: a lease is lease-, the mutex of the semaphore an InterProcessMutex below it, and Go
// refuses a path of leases.
func namesOfSemaphores(s *scene) {
	java := s.java()
	java.Must("a", "LOCK", "semaphore", s.path())
	leases := s.at(s.name + "/leases")
	if all := leases.queue(); len(all) != 1 || !strings.Contains(all[0], "-lease-") {
		s.Errorf("the leases are %v", all)
	}
	if _, _, err := s.tree().conn.Get(s.path() + "/locks"); err != nil {
		s.Errorf("the mutex of the semaphore: %v", err)
	}
	if _, err := s.client(ttl).Mutex(leases.name).TryLock(s.Context()); !errors.Is(err, driver.ErrRefused) {
		s.Errorf("a lock at the path of leases: %v, want ErrRefused", err)
	}
	java.Must("a", "UNLOCK", "semaphore", s.path())
}

// orderAfterTheLast: after 2^31 claims Curator takes a later claim for the holder. This is why Go
// refuses them.
func orderAfterTheLast(s *scene) {
	early, late, later := "_c_"+uuid()+"-lock-2147483647", "_c_"+uuid()+"-lock--2147483648", "_c_"+uuid()+"-lock--2147483647"
	got := strings.Fields(s.java().Must("a", "SORT", s.kind, s.path(), early, late, later).Value)
	if len(got) != 3 || got[0] != later || got[1] != late || got[2] != early {
		s.Errorf("Curator orders %v; if it has learned to count, the refusal can go", got)
	}
}

// kazooReads: kazoo's read lock has other names, and Go refuses its path.
func kazooReads(s *scene) {
	lock, unlock := startKazoo(s, "read")
	must.OK(s, await(s, "kazoo", lock("a")).Err())
	if all := s.queue(); len(all) != 1 || !strings.Contains(all[0], "__rlock__") {
		s.Errorf("the read lock is %v", all)
	}
	if _, err := s.client(ttl).Mutex(s.name).TryLock(s.Context()); !errors.Is(err, driver.ErrRefused) {
		s.Errorf("a lock at the path of a read lock: %v, want ErrRefused", err)
	}
	must.OK(s, await(s, "kazoo", unlock("a")).Err())
}

// latchStepsDown: a LeaderLatch gives the leadership up when its connection is lost, before its session
// ends, and takes it again.
func latchStepsDown(s *scene) {
	proxy, err := servers.NewProxy(s.tree().ensemble.Addrs()[0])
	must.OK(s, err)
	s.Cleanup(proxy.Close)
	java := &peer{startCurator(s, s.version, []string{proxy.Addr}), ""}
	java.Must("a", "LOCK", "latch", s.path())
	node := s.first()
	proxy.Filter(func(int, bool, []byte) bool { return false })
	proxy.Cut()
	must.OK(s, servers.Await("it steps down", func() bool { return java.Do("a", "HELD", "latch", s.path()).Word == "no" }))
	if s.first() != node {
		s.Error("its node has gone with the connection")
	}
	proxy.Filter(nil)
	must.OK(s, servers.Await("it leads again", func() bool { return java.Do("a", "HELD", "latch", s.path()).Word == "ok" }))
}
