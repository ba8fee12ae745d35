// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// curatorVersions are the versions of Curator. Its formats have not changed since 5.5.0.
var curatorVersions = []string{"5.9.0"}

const curatorNewest = "5.9.0"

const (
	// treeTimeout is the session timeout of a Java process: what a killed holder costs the other side.
	treeTimeout = 15 * time.Second
	// treeLong is the longest TTL here. A waiter in Go polls after more than that: what comes within
	// half of it came by a watch.
	treeLong = 45 * time.Second
)

// curator is an ensemble with locks of Curator.
type curator struct {
	version  string
	ensemble *servers.Ensemble
	conn     *zk.Conn // to see the tree, and to change it by hand
}

func curatorStage(t *testing.T, version string) *stage {
	return newStage(t, version, newCurator(t, version))
}

func newCurator(t *testing.T, version string) *curator {
	e := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(1) })
	return &curator{version, e, connectTree(t, e)}
}

// connectTree opens a connection to see the tree.
func connectTree(t testing.TB, e *servers.Ensemble) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(e.Addrs(), 40*time.Second, zk.WithLogInfo(false))
	must.OK(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// startCurator starts a Java process with Curator, or skips the test.
func startCurator(t testing.TB, version string, addrs []string, more ...string) *process {
	t.Helper()
	command, err := command("curator", version)
	if err != nil {
		t.Skip(err)
	}
	return launch(t, command, append([]string{strings.Join(addrs, ","), millis(treeTimeout)}, more...)...)
}

func (*curator) traits(string) traits {
	return traits{ttl: ttl, long: treeLong, soon: treeLong / 2, patience: patience, queues: true}
}

func (c *curator) apart(t *testing.T) format { return newCurator(t, c.version) }

func (c *curator) start(t testing.TB) *process {
	t.Helper()
	return startCurator(t, c.version, c.ensemble.Addrs())
}

func (*curator) other(s *scene, kind string, mortal bool) contender {
	s.Helper()
	return s.by(kind, mortal)
}

func (*curator) foreign(name string) string { return "/" + name }

// recipe is the kind of lock, in Go.
func recipe(kind string) curatorstore.Recipe {
	switch kind {
	case "readwrite":
		return curatorstore.ReadWrite
	case "latch":
		return curatorstore.Latch
	default:
		return curatorstore.Mutex
	}
}

func (c *curator) store(s *scene) driver.Store {
	s.Helper()
	return s.treeStore(c.ensemble.Addrs(), curatorstore.Options{})
}

// treeStore returns a store of a Go process with further options.
func (s *scene) treeStore(addrs []string, o curatorstore.Options) *curatorstore.Store {
	s.Helper()
	o.Recipe, o.TickTime, o.MaxTTL = recipe(s.kind), servers.TickTime, treeLong
	store, err := curatorstore.New(addrs, &o)
	must.OK(s, err)
	s.Cleanup(func() { _ = store.Close() })
	return store
}

func (c *curator) url(kind string) string {
	word := map[curatorstore.Recipe]string{curatorstore.Mutex: "mutex", curatorstore.ReadWrite: "readwrite", curatorstore.Latch: "latch"}[recipe(kind)]
	return fmt.Sprintf("curator://%s?recipe=%s&tick_time=%v&max_ttl=%v", strings.Join(c.ensemble.Addrs(), ","), word, servers.TickTime, treeLong)
}

func (*curator) count(s *scene) int                        { s.Helper(); return len(s.queue()) }
func (*curator) settled(s *scene, _ contender) func() bool { s.Helper(); return queueGrows(s) }

func (c *curator) fence(s *scene) driver.Token {
	s.Helper()
	_, stat, err := c.conn.Get(s.first())
	must.OK(s, err)
	return driver.Token(stat.Czxid * 512)
}

func (*curator) deleteFirst(s *scene) { s.Helper(); s.remove(s.first()) }

func (*curator) barred(s *scene, c contender) (takes func()) {
	s.Helper()
	if a := c.(*actor); s.kind == "mutex" {
		triesAgain(s, c)
	} else {
		a.Must(a.who, "BEGIN", a.kind, a.path)
		s.queued(2)
		if got := a.Do(a.who, "HELD", a.kind, a.path); got.Word != "no" {
			s.Fatalf("it leads beside a Go holder: %v", got)
		}
		must.OK(s, a.unlock())
		s.queued(1)
	}
	return func() { s.Helper(); s.queued(0); s.takes(c) }
}

func (*curator) gaveUp(s *scene, c contender) {
	s.Helper()
	a := c.(*actor)
	if got := a.Do(a.who, "TRY", a.kind, a.path, 300); got.Word != "no" {
		s.Errorf("acquire(300 ms) beside a Go holder: %v", got)
	}
}

func (*curator) held(_ *scene, c contender) { c.(*actor).holds() }

// lost: it removes nothing but its own node, which has gone.
func (*curator) lost(_ *scene, c contender) { _ = c.unlock() }

func (*curator) free(s *scene) {
	s.Helper()
	if s.kind == "latch" || s.kind == "select" {
		s.queued(0) // they leave in the background
	}
	if all := s.queue(); len(all) > 0 {
		s.Fatalf("the lock is not free: %v", all)
	}
}

// restart: the connection that shows the tree is a new one, because the client library may wait for minutes for the greeting of a server
// that has accepted a connection and is not ready.
func (c *curator) restart(s *scene) {
	s.Helper()
	must.OK(s, c.ensemble.Servers[0].Restart())
	c.conn = connectTree(s, c.ensemble)
}

// tree is that of a scene on ZooKeeper.
func (s *scene) tree() *curator { return s.format.(*curator) }

// queue returns the names of the claims, in order.
func (s *scene) queue() []string {
	s.Helper()
	all, _, err := s.tree().conn.Children(s.path())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		s.Fatal(err)
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) })
	return all
}

// first returns the node of the holder.
func (s *scene) first() string {
	s.Helper()
	all := s.queue()
	if len(all) == 0 {
		s.Fatal("the lock is free")
	}
	return path.Join(s.path(), all[0])
}

// remove deletes a node by hand.
func (s *scene) remove(node string) { s.Helper(); must.OK(s, s.tree().conn.Delete(node, -1)) }

// watched waits until n other processes watch the node of the holder. That there is a claim of a waiter does not show that it needs
// the watch: it may look at its predecessor after the unlock. Other formats have no watches that can be seen.
func (s *scene) watched(n int) {
	s.Helper()
	c, ok := s.format.(*curator)
	if !ok {
		return
	}
	node := s.first()
	_, stat, err := c.conn.Get(node)
	must.OK(s, err)
	owner := fmt.Sprintf("0x%x", stat.EphemeralOwner)
	must.OK(s, servers.Await(fmt.Sprint(n, " waiters watch ", node), func() bool {
		at, others := "", 0
		for line := range strings.Lines(c.ensemble.Servers[0].Ask("wchp")) {
			word := strings.TrimSpace(line)
			if strings.HasPrefix(word, "/") {
				at = word
			} else if at == node && word != "" && word != owner {
				others++
			}
		}
		return others >= n
	}))
}

// curatorTables are in the order of the page.
var curatorTables = func() []table {
	excluding := slices.Concat(excluded, woken, holderKilled, deleted("node deleted by hand")[:2], brokenByOperator, inOrder, []cell{pathRemoved})
	return []table{
		{"Curator InterProcessMutex", "mutex", "", slices.Concat(excluding, waiterKilled, waiterGivesUp, holderPaused, forMutex, waiterPaused, treeReplies, restarted, treeSame)},
		{"Curator InterProcessReadWriteLock", "readwrite", "", treeReadWrite},
		{"Curator LeaderSelector", "select", "", append(slices.Clone(excluding), leaderSeen)},
		{"Curator LeaderLatch", "latch", "", excluding},
	}
}()

// TestCurator plays all cells.
func TestCurator(t *testing.T) {
	slow := []string{"holder killed", "waiter killed", "holder paused", "waiter paused", "reply", "server"}
	for _, version := range curatorVersions {
		t.Run(version, func(t *testing.T) { curatorStage(t, version).playTables(t, curatorTables, slow) })
	}
}

var pathRemoved = cell{"path removed while it is free", "both", "both", func(s *scene) {
	other, locks := s.other(), s.client(s.ttl)
	for range 3 {
		s.unlock(s.lock(locks))
		s.remove(s.path())
		s.takes(other)
		must.OK(s, other.unlock())
		s.queued(0)
		s.remove(s.path())
	}
}}

// forMutex are the further cells of an InterProcessMutex.
var forMutex = []cell{
	{"re-entered", "Java", "Go", func(s *scene) {
		other, locks := s.other(), s.client(treeLong)
		for range 3 {
			s.takes(other)
		}
		waiting := s.locking(locks)
		for range 3 {
			s.busy(s.client(ttl))
			must.OK(s, other.unlock())
		}
		s.leaves(waiting)
	}},
	{"asked to release", "Go", "Java", func(s *scene) {
		l := s.lock(s.client(ttl))
		wanted := l.Contended()
		s.java().Must("a", "REVOKE", s.kind, s.first())
		await(s, "Contended", wanted)
		must.OK(s, l.Err())
		s.unlock(l)
	}},
	{"asked to release", "Java", "Go", func(s *scene) {
		java := s.java()
		java.Must("a", "REVOCABLE", s.kind, s.path())
		java.Must("a", "LOCK", s.kind, s.path())
		waiting := s.locking(s.clientOf(s.treeStore(s.tree().ensemble.Addrs(), curatorstore.Options{Revoke: true}), treeLong))
		java.Must("a", "REVOKED", s.kind, s.path(), patience.Milliseconds())
		java.Must("a", "UNLOCK", s.kind, s.path())
		s.leaves(waiting)
	}},
	{"wanted by a waiter", "Go", "Java", func(s *scene) {
		other, l := s.other(), s.lock(s.client(ttl))
		wanted := l.Contended()
		waiting := s.asking(other)
		await(s, "Contended", wanted)
		s.unlock(l)
		s.has(waiting)
		must.OK(s, other.unlock())
	}},
}

// leaderSeen: Java sees the Go leader by the data of its node.
var leaderSeen = cell{"leader seen", "Go", "Java", func(s *scene) {
	l := s.lock(s.client(ttl))
	if got := s.java().Must("a", "LEADER", s.kind, s.path()).Value; !strings.Contains(got, `"owner"`) {
		s.Errorf("getLeader shows %s, want the record of the Go holder", got)
	}
	s.unlock(l)
}}
