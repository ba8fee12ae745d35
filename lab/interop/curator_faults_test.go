// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

var treeOptions = curatorstore.Options{}

// treeFormats are in the order of the page.
func treeFormats() []treeFormat {
	return []treeFormat{
		{"Curator InterProcessMutex", "mutex", slices.Concat(excluding, forMutex, treePauses, treeFaults)},
		{"Curator InterProcessReadWriteLock", "readwrite", treeReadWrite},
		{"Curator LeaderSelector", "select", append(slices.Clone(excluding), leaderSeen)},
		{"Curator LeaderLatch", "latch", excluding},
	}
}

// treePauses are the cells in which a waiter is paused until its session has ended.
var treePauses = []treeCell{
	{"waiter paused", "Java", "Go", func(s *treeScene) {
		java, g := s.java(), s.mortalGo()
		java.Must("a", "LOCK", s.kind, s.path)
		waiting := g.Ask("a", "LOCK", "lock", s.name())
		s.queued(2)
		resume := g.Pause()
		java.Must("a", "UNLOCK", s.kind, s.path)
		java.Must("b", "LOCK", s.kind, s.path) // when the session of the paused waiter has ended
		resume()
		java.Must("b", "HELD", s.kind, s.path)
		java.Must("b", "UNLOCK", s.kind, s.path)
		must.OK(s, await(s, "Lock in Go after a pause", waiting).Err())
		g.Must("a", "UNLOCK", "lock", s.name())
		s.queued(0)
	}},
	{"waiter paused", "Go", "Java", func(s *treeScene) {
		java, l := s.mortal(), s.lock(s.client(treeLong))
		waiting := java.Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		resume := java.Pause()
		s.unlock(l)
		l = s.lock(s.client(treeLong)) // when the session of the paused waiter has ended
		resume()
		must.OK(s, l.Err())
		s.unlock(l)
		await(s, "the end of acquire() in Java", waiting)
	}},
}

// treeFaults are the cells in which the network or the server fails, and those that compare.
var treeFaults = []treeCell{
	{"reply of a lock lost", "Go", "Java", func(s *treeScene) {
		proxy, lost := s.lossy()
		locks := s.clientOf(s.storeAt([]string{proxy.Addr}, treeOptions), treeLong)
		other := *s
		other.path += "-other"
		s.unlock(other.lock(locks)) // there is a session
		lost.Start()
		l := s.lock(locks)
		if !lost.Done() {
			s.Fatal("no reply was lost")
		}
		s.queued(1)
		waiting := s.java().Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		s.unlock(l)
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		s.java().Must("a", "UNLOCK", s.kind, s.path)
		s.free()
	}},
	{"reply of a lock lost", "Java", "Go", func(s *treeScene) {
		proxy, lost := s.lossy()
		java := &peer{startCurator(s, s.version, []string{proxy.Addr}, treeTimeout), ""}
		java.Must("a", "LOCK", s.kind, s.path+"-other") // it is connected
		lost.Start()
		java.Must("a", "LOCK", s.kind, s.path)
		if !lost.Done() {
			s.Fatal("no reply was lost")
		}
		locks := s.client(treeLong)
		s.busy(locks)
		s.queued(1)
		java.Must("a", "UNLOCK", s.kind, s.path)
		s.unlock(s.lock(locks))
		s.free()
	}},
	{"server restarts with its data", "Java", "Go", func(s *treeScene) {
		s = s.apart()
		java, locks := s.java(), s.client(treeLong)
		java.Must("a", "LOCK", s.kind, s.path)
		waiting := s.locking(locks)
		s.queued(2)
		s.restart()
		s.queued(2)
		java.Must("a", "UNLOCK", s.kind, s.path)
		s.unlock(s.granted(waiting).lease)
	}},
	{"server restarts with its data", "Go", "Java", func(s *treeScene) {
		s = s.apart()
		java, locks := s.java(), s.client(treeLong)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		s.restart()
		must.OK(s, l.Err())
		s.unlock(l)
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.path)
	}},
	{"same in the tree", "both", "both", sameInTheTree},
	{"names in one order", "both", "both", sameOrder},
}

// restart restarts the server. The connection that shows the tree is a new one: the client library may
// wait for minutes for the greeting of a server that has accepted a connection and is not ready.
func (s *treeScene) restart() {
	s.Helper()
	must.OK(s, s.ensemble.Servers[0].Restart())
	s.conn = connectTree(s, s.ensemble)
}

// lossy returns a proxy that loses the first reply to the creation of a claim, once it is started.
func (s *treeScene) lossy() (*servers.Proxy, *servers.LostReply) {
	s.Helper()
	proxy, err := servers.NewProxy(s.ensemble.Addrs()[0])
	must.OK(s, err)
	s.Cleanup(proxy.Close)
	return proxy, proxy.LoseReplyTo(s.path + "/_c_")
}

var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-\d+)?-`)

// shape is what a program left in the tree, node by node, without what differs in every run: ids,
// numbers of transactions, times and the text for people.
func (s *treeScene) shape() (all []string) {
	s.Helper()
	for i := 1; i <= len(s.path); i++ {
		if i == len(s.path) || s.path[i] == '/' {
			all = append(all, s.describe(s.path[:i], s.path[:i]))
		}
	}
	for _, child := range s.queue() {
		all = append(all, s.describe(s.path+"/"+child, "PATH/"+ids.ReplaceAllString(child, "ID-")))
	}
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], s.path, "PATH")
	}
	return all
}

func (s *treeScene) describe(path, as string) string {
	s.Helper()
	data, stat, err := s.conn.Get(path)
	must.OK(s, err)
	acl, _, err := s.conn.GetACL(path)
	must.OK(s, err)
	kind := "stays"
	if stat.EphemeralOwner != 0 {
		kind = "ephemeral"
	}
	text := "text"
	if len(data) == 0 {
		text = fmt.Sprintf("%q", data)
	}
	return fmt.Sprintf("%s: %s, data %s, version %d, acl version %d, acl %v", as, kind, text, stat.Version, stat.Aversion, acl)
}

// sameInTheTree: Go leaves what Curator leaves, in every field.
func sameInTheTree(s *treeScene) {
	ours, theirs := *s, *s
	ours.path, theirs.path = s.path+"/deep/go", s.path+"/deep/java"
	l := ours.lock(ours.client(treeLong))
	java := s.java()
	java.Must("a", "LOCK", s.kind, theirs.path)
	a, b := ours.shape(), theirs.shape()
	if len(a) < 5 || !slices.Equal(a, b) {
		s.Errorf("Go leaves\n\t%s\nCurator leaves\n\t%s", strings.Join(a, "\n\t"), strings.Join(b, "\n\t"))
	}
	s.unlock(l)
	java.Must("a", "UNLOCK", s.kind, theirs.path)
}

// sameOrder: Go orders the claims as Curator's own sort does. The store is asked who holds each lock of
// a tree of random names, and Curator sorts the names.
func sameOrder(s *treeScene) {
	java, store := s.java(), s.store(treeOptions)
	must.OK(s, makePath(s.conn, s.path))
	for i := range 30 {
		path := fmt.Sprintf("%s/%d", s.path, i)
		must.OK(s, makePath(s.conn, path))
		var names []string
		for _, n := range randomNumbers(i, 5) {
			number := fmt.Sprintf("%010d", n)
			name := []string{"_c_" + uuid() + "-lock-" + number, "_c_" + uuid() + "-7-lock-" + number, "_c_" + strings.ReplaceAll(uuid(), "-", "") + "-lock-" + number}[len(names)%3]
			_, err := s.conn.Create(path+"/"+name, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			must.OK(s, err)
			names = append(names, name)
		}
		args := make([]any, len(names))
		for i, name := range names {
			args[i] = name
		}
		sorted := strings.Fields(java.Must("a", "SORT", s.kind, path, args...).Value)
		st, err := store.Inspect(s.Context(), path[1:])
		must.OK(s, err)
		_, stat, err := s.conn.Get(path + "/" + sorted[0])
		must.OK(s, err)
		if len(st.Holders) != 1 || st.Holders[0].Token != driver.Token(stat.Czxid*512) {
			s.Errorf("of %v Curator takes %s for the holder, Go %+v", names, sorted[0], st.Holders)
		}
	}
}

// makePath creates the nodes of a path.
func makePath(conn *zk.Conn, path string) error {
	for i := 1; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			if _, err := conn.Create(path[:i], []byte{}, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		}
	}
	return nil
}
