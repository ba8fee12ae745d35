// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// tokenInName is the token in the name of a downgraded claim.
var tokenInName = regexp.MustCompile(`ID-\d+-`)

// uuid returns an id as Curator has it.
func uuid() string {
	s := driver.NewSessionID().String()
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}

// alike is another library whose lock has the format of an InterProcessMutex.
type alike struct {
	name string
	// start returns a process of the library, with kinds of locks as the actors' requests name them.
	start func(s *scene) (lock, unlock func(actor string) <-chan answer)
	// unseen is set if the library does not see nodes of Curator's format.
	unseen bool
}

// kazooVersion is the version of kazoo.
const kazooVersion = "2.11.0"

var alikes = []alike{
	{name: "zk.Lock of go-zookeeper 1.0.4", start: startZkLock},
	{name: "kazoo " + kazooVersion + ", extra_lock_patterns", start: func(s *scene) (lock, unlock func(string) <-chan answer) { return startKazoo(s, "pattern") }},
	{name: "kazoo " + kazooVersion + ", default", start: func(s *scene) (lock, unlock func(string) <-chan answer) { return startKazoo(s, "plain") }, unseen: true},
}

// startZkLock is zk.Lock, each actor with a connection.
func startZkLock(s *scene) (lock, unlock func(actor string) <-chan answer) {
	locks := map[string]*zk.Lock{}
	of := func(actor string) *zk.Lock {
		if locks[actor] == nil {
			conn, _, err := zk.Connect(s.tree().ensemble.Addrs(), treeTimeout, zk.WithLogInfo(false))
			must.OK(s, err)
			s.Cleanup(conn.Close)
			locks[actor] = zk.NewLock(conn, s.path(), zk.WorldACL(zk.PermAll))
		}
		return locks[actor]
	}
	run := func(do func() error) <-chan answer {
		c := make(chan answer, 1)
		go func() {
			if err := do(); err != nil {
				c <- answer{Word: "err", Value: err.Error()}
				return
			}
			c <- answer{Word: "ok"}
		}()
		return c
	}
	return func(actor string) <-chan answer { return run(of(actor).Lock) }, func(actor string) <-chan answer { return run(of(actor).Unlock) }
}

// startKazoo is a Python process with kazoo; the test is skipped if it is not installed.
func startKazoo(s *scene, kind string) (lock, unlock func(actor string) <-chan answer) {
	s.Helper()
	python, err := kazooPython()
	if err != nil {
		s.Skip(err)
	}
	p := &peer{launch(s, []string{python, "kazoo/peer.py"}, strings.Join(s.tree().ensemble.Addrs(), ","), fmt.Sprint(treeTimeout.Seconds())), ""}
	return func(actor string) <-chan answer { return p.Ask(actor, "LOCK", kind, s.path()) },
		func(actor string) <-chan answer { return p.Ask(actor, "UNLOCK", kind, s.path()) }
}

// kazooPython returns the interpreter of a virtual environment with kazoo.
func kazooPython() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "fencelock-interop", "kazoo-"+kazooVersion)
	python := filepath.Join(dir, "bin", "python")
	if err := exec.Command(python, "-c", "import kazoo").Run(); err != nil {
		return "", fmt.Errorf("kazoo is not installed; run: python3 -m venv %s && %s/bin/pip install kazoo==%s", dir, dir, kazooVersion)
	}
	return python, nil
}

const alikeTitle = "Alike: "

// alikeRows are the rows of TestAlike.
func alikeRows() (all []row) {
	for _, a := range alikes {
		for _, pair := range [][2]string{{"other", "Go"}, {"Go", "other"}, {"Java", "other"}, {"other", "Java"}} {
			all = append(all, row{alikeTitle + a.name, "excluded and woken", pair[0], pair[1]})
		}
	}
	return all
}

// TestAlike shares a lock with the libraries whose locks look like Curator's, and shows which pairs do
// not exclude each other.
func TestAlike(t *testing.T) {
	byHand(t)
	stage := curatorStage(t, curatorNewest)
	for _, a := range alikes {
		t.Run(a.name, func(t *testing.T) {
			for _, pair := range []struct {
				holder, waiter string
				do             func(s *scene, a alike)
				broken         bool
			}{
				{"other", "Go", otherThenGo, false}, {"Go", "other", goThenOther, a.unseen},
				{"Java", "other", javaThenOther, a.unseen}, {"other", "Java", otherThenJava, strings.HasPrefix(a.name, "kazoo")},
			} {
				t.Run("holder "+pair.holder+", waiter "+pair.waiter, func(t *testing.T) {
					t.Parallel()
					stage.play(t, "mutex", func(s *scene) {
						r := row{alikeTitle + a.name, "excluded and woken", pair.holder, pair.waiter}
						if pair.broken {
							overlapping(s, a, pair.holder, pair.waiter)
							results.note(r, curatorNewest, overlapped)
							return
						}
						results.noteTest(t, r, curatorNewest)
						pair.do(s, a)
					})
				})
			}
		})
	}
}

func otherThenGo(s *scene, a alike) {
	lock, unlock := a.start(s)
	s.has(lock("a"))
	s.busy(s.client(ttl))
	waiting := s.locking(s.client(treeLong))
	s.has(unlock("a"))
	s.leaves(waiting)
}

func goThenOther(s *scene, a alike) {
	lock, unlock := a.start(s)
	l := s.lock(s.client(treeLong))
	waiting := lock("a")
	s.queued(2)
	s.stillWaits(waiting)
	s.unlock(l)
	s.has(waiting)
	s.busy(s.client(ttl))
	s.has(unlock("a"))
}

func javaThenOther(s *scene, a alike) {
	lock, unlock := a.start(s)
	java := s.other()
	s.takes(java)
	waiting := lock("a")
	s.queued(2)
	s.stillWaits(waiting)
	must.OK(s, java.unlock())
	s.has(waiting)
	s.has(unlock("a"))
}

func otherThenJava(s *scene, a alike) {
	lock, unlock := a.start(s)
	java := s.other()
	s.has(lock("a"))
	s.barred(s, java)
	waiting := s.asking(java)
	s.has(unlock("a"))
	s.has(waiting)
	must.OK(s, java.unlock())
}

// stillWaits checks that a waiter has not got the lock while a Go claim comes and goes behind it.
func (s *scene) stillWaits(c <-chan answer) {
	s.Helper()
	s.busy(s.client(ttl))
	select {
	case got := <-c:
		s.Fatalf("it did not wait: %v", got)
	default:
	}
}

// overlapping shows that a pair does not exclude each other, so that the page stays true.
func overlapping(s *scene, a alike, holder, waiter string) {
	lock, _ := a.start(s)
	java := s.java()
	take := map[string]func() error{
		"Go":    func() error { s.lock(s.client(treeLong)); return nil },
		"Java":  func() error { return java.Do("j", "LOCK", s.kind, s.path()).Err() },
		"other": func() error { return await(s, a.name, lock("a")).Err() },
	}
	must.OK(s, take[holder]())
	must.OK(s, take[waiter]())
	s.queued(2)
}
