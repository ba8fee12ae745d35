// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
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

// treeScene is an ensemble with Go and Java processes that share locks.
type treeScene struct {
	*testing.T
	version  string
	kind     string // of lock, in Java
	path     string // of the lock
	ensemble *servers.Ensemble
	shared   *process
	conn     *zk.Conn // to see the tree, and to change it by hand
}

// treeStage is what the scenes of one version share.
type treeStage struct {
	version  string
	ensemble *servers.Ensemble
	java     *process
	conn     *zk.Conn
}

func newTreeStage(t *testing.T, version string) *treeStage {
	e := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(1) })
	return &treeStage{version, e, startCurator(t, version, e.Addrs(), treeTimeout), connectTree(t, e)}
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
func startCurator(t testing.TB, version string, addrs []string, timeout time.Duration, more ...string) *process {
	t.Helper()
	command, err := command("curator", version)
	if err != nil {
		t.Skip(err)
	}
	return launch(t, command, append([]string{strings.Join(addrs, ","), millis(timeout)}, more...)...)
}

// play runs a scene with a lock that no other scene has.
func (s *treeStage) play(t *testing.T, kind string, do func(*treeScene)) {
	do(&treeScene{T: t, version: s.version, kind: kind, ensemble: s.ensemble, shared: s.java, conn: s.conn, path: fmt.Sprint("/locks/orders-", names.Add(1))})
}

// apart returns the scene on a separate server, which can be restarted.
func (s *treeScene) apart() *treeScene {
	s.Helper()
	apart := newTreeStage(s.T, s.version)
	return &treeScene{T: s.T, version: s.version, kind: s.kind, ensemble: apart.ensemble, shared: apart.java, conn: apart.conn, path: s.path}
}

// java returns the Java process that the scenes share.
func (s *treeScene) java() *peer { return &peer{s.shared, s.path + "/"} }

// mortal starts a Java process that can be killed or paused.
func (s *treeScene) mortal() *peer {
	s.Helper()
	return &peer{startCurator(s, s.version, s.ensemble.Addrs(), treeTimeout), ""}
}

// name is the name of the lock in Go.
func (s *treeScene) name() string { return s.path[1:] }

// recipe is the kind of lock, in Go.
func (s *treeScene) recipe() curatorstore.Recipe {
	switch s.kind {
	case "readwrite":
		return curatorstore.ReadWrite
	case "latch":
		return curatorstore.Latch
	default:
		return curatorstore.Mutex
	}
}

// store returns a store of a Go process.
func (s *treeScene) store(o curatorstore.Options) *curatorstore.Store {
	s.Helper()
	return s.storeAt(s.ensemble.Addrs(), o)
}

func (s *treeScene) storeAt(addrs []string, o curatorstore.Options) *curatorstore.Store {
	s.Helper()
	o.Recipe, o.TickTime, o.MaxTTL = s.recipe(), servers.TickTime, treeLong
	store, err := curatorstore.New(addrs, &o)
	must.OK(s, err)
	s.Cleanup(func() { _ = store.Close() })
	return store
}

// client returns a Go process.
func (s *treeScene) client(ttl time.Duration) *fencelock.Client {
	s.Helper()
	return s.clientOf(s.store(curatorstore.Options{}), ttl)
}

func (s *treeScene) clientOf(store *curatorstore.Store, ttl time.Duration) *fencelock.Client {
	s.Helper()
	locks, err := fencelock.New(store, &fencelock.Options{TTL: ttl, Patience: patience})
	must.OK(s, err)
	s.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

// lock takes the lock in Go.
func (s *treeScene) lock(locks *fencelock.Client) *fencelock.Lease {
	s.Helper()
	return s.granted(s.locking(locks)).lease
}

// locking takes the lock in Go, in the background.
func (s *treeScene) locking(locks *fencelock.Client) <-chan result {
	return s.taking(locks.Mutex(s.name()).Lock)
}

// taking calls Lock or RLock in the background.
func (s *treeScene) taking(take func(context.Context) (*fencelock.Lease, error)) <-chan result {
	return taking(s, take)
}

// granted waits for a lease.
func (s *treeScene) granted(c <-chan result) result { s.Helper(); return granted(s, c) }

// woken waits for a lease that came by a watch.
func (s *treeScene) woken(c <-chan result, since time.Time) *fencelock.Lease {
	s.Helper()
	r := s.granted(c)
	if took := r.at.Sub(since); took > treeLong/2 {
		s.Errorf("woken after %v, as if by a poll", took)
	}
	return r.lease
}

// busy checks that Go cannot take the lock.
func (s *treeScene) busy(locks *fencelock.Client) {
	s.Helper()
	if _, err := locks.Mutex(s.name()).TryLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
		s.Fatalf("TryLock beside another holder: %v", err)
	}
}

// unlock gives the lock back in Go.
func (s *treeScene) unlock(l *fencelock.Lease) {
	s.Helper()
	must.OK(s, l.Unlock(s.Context()))
}

// queue returns the names of the claims, in order.
func (s *treeScene) queue() []string {
	s.Helper()
	all, _, err := s.conn.Children(s.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		s.Fatal(err)
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) })
	return all
}

// queued waits until there are n claims: holders, and waiters that are in the queue.
func (s *treeScene) queued(n int) {
	s.Helper()
	must.OK(s, servers.Await(fmt.Sprint(n, " claims"), func() bool { return len(s.queue()) == n }))
}

// free checks that nothing of the lock is left.
func (s *treeScene) free() {
	s.Helper()
	if all := s.queue(); len(all) > 0 {
		s.Fatalf("the lock is not free: %v", all)
	}
}

// first returns the node of the holder.
func (s *treeScene) first() string {
	s.Helper()
	all := s.queue()
	if len(all) == 0 {
		s.Fatal("the lock is free")
	}
	return path.Join(s.path, all[0])
}

// remove deletes a node by hand.
func (s *treeScene) remove(node string) {
	s.Helper()
	must.OK(s, s.conn.Delete(node, -1))
}

// mortalGo starts a Go process that can be killed or paused.
func (s *treeScene) mortalGo() *peer {
	s.Helper()
	recipe := map[curatorstore.Recipe]string{curatorstore.Mutex: "mutex", curatorstore.ReadWrite: "readwrite", curatorstore.Latch: "latch"}[s.recipe()]
	return startGo(s, fmt.Sprintf("curator://%s?recipe=%s&tick_time=%v&max_ttl=%v", strings.Join(s.ensemble.Addrs(), ","), recipe, servers.TickTime, treeLong), treeTimeout)
}

// watched waits until n other processes watch the node of a claim. That there is a claim of a waiter does not show that it needs
// the watch: it may look at its predecessor after the unlock.
func (s *treeScene) watched(node string, n int) {
	s.Helper()
	_, stat, err := s.conn.Get(node)
	must.OK(s, err)
	owner := fmt.Sprintf("0x%x", stat.EphemeralOwner)
	must.OK(s, servers.Await(fmt.Sprint(n, " waiters watch ", node), func() bool {
		at, others := "", 0
		for line := range strings.Lines(s.ensemble.Servers[0].Ask("wchp")) {
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

// waits waits until Java threads wait for a watch.
func (s *treeScene) waits(java *peer, actors ...string) {
	s.Helper()
	for _, actor := range actors {
		must.OK(s, servers.Await(actor+" waits", func() bool { return java.Do(actor, "WAITS", s.kind, s.path).Word == "ok" }))
	}
}
