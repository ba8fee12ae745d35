// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
)

// springVersion is the version of spring-integration-redis.
const springVersion = "6.5.1"

// spring is a server with locks of the registries of Spring Integration. Their kinds are its modes, spin and pubsub. What it has in
// common with Redisson is that there is no queue.
type spring struct{ redisson }

func springKey(s *scene) string { return s.kind + ":" + s.name }

func (*spring) traits(string) traits { return traits{ttl: ttl, long: long, soon: long} }

func (r *spring) apart(t *testing.T) format { return &spring{redisson{server: redisServer(t)}} }

func (r *spring) start(t testing.TB) *process { t.Helper(); return r.startFor(t, millis(long)) }

func (r *spring) startFor(t testing.TB, lease string) *process {
	t.Helper()
	command, err := command("spring", springVersion)
	if err != nil {
		t.Skip(err)
	}
	return launch(t, command, r.server.Addr, lease)
}

// other has the lease of its process.
func (r *spring) other(s *scene, kind string, mortal bool) contender {
	s.Helper()
	a := s.by(kind, false)
	if mortal {
		a.peer = &peer{r.startFor(s, millis(ttl)), ""}
	}
	return a
}

func (r *spring) store(s *scene) driver.Store {
	s.Helper()
	opts := &setnxstore.Options{Key: s.kind + ":%s"}
	if s.kind == "pubsub" {
		opts.Channel = s.kind + "-channel"
	}
	store, err := setnxstore.New(watchedClient(s, r.server), opts)
	must.OK(s, err)
	s.Cleanup(func() { _ = store.Close() })
	return store
}

func (r *spring) settled(s *scene, by contender) func() bool {
	if by != nil {
		return r.redisson.settled(s, by)
	}
	return s.refused.twiceMore(springKey(s))
}

func (r *spring) free(s *scene) {
	s.Helper()
	if n, err := r.server.Do("EXISTS", springKey(s)).Int(); err != nil || n != 0 {
		s.Fatalf("the lock is not free: %d keys, %v", n, err)
	}
}

// sameAsSpring: Go writes and publishes what Spring does.
func sameAsSpring(s *scene) {
	other, locks, server := s.other(), s.client(ttl), s.format.(*spring).server
	s.unlock(s.lock(locks)) // opens the session
	stop := monitor(s, server)
	s.takes(other)
	must.OK(s, other.unlock())
	theirs := s.freed(stop())
	stop = monitor(s, server)
	s.unlock(s.lock(locks))
	if ours := s.freed(stop()); theirs == "" || ours != theirs {
		s.Errorf("Go writes\n\t%s\nSpring writes\n\t%s", ours, theirs)
	}
}

// freed returns what a recording wrote and published about the lock.
func (s *scene) freed(lines []string) string {
	var all []string
	for _, line := range lines {
		var words []string
		for _, m := range word.FindAllStringSubmatch(line, -1) {
			words = append(words, m[1])
		}
		if !strings.Contains(line, " lua] ") || len(words) < 2 || !strings.Contains(line, springKey(s)) {
			continue
		}
		switch command := strings.ToLower(words[0]); command {
		case "set", "del", "unlink":
			if words[1] == springKey(s) {
				all = append(all, strings.Replace(command, "unlink", "del", 1)+" "+words[1])
			}
		case "publish":
			all = append(all, "publish "+strings.Join(words[1:], " "))
		}
	}
	return strings.Join(all, "\n\t")
}

// springTables are the modes of a registry. Only the mode that publishes wakes.
var springTables = func() []table {
	cells := slices.Concat(excluded, holderKilled[:1], []cell{{"same on the wire", "both", "both", sameAsSpring}})
	return []table{{"Spring Integration, SPIN_LOCK", "spin", "", cells}, {"Spring Integration, PUB_SUB_LOCK", "pubsub", "", slices.Concat(cells, woken)}}
}()

// TestSpring shares locks with the registries of Spring Integration.
func TestSpring(t *testing.T) {
	byHand(t)
	t.Parallel()
	newStage(t, springVersion, (&spring{}).apart(t)).playTables(t, springTables, nil)
}
