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

// treeReplies are the cells in which a reply is lost.
var treeReplies = []cell{
	{"reply of a lock lost", "Go", "Java", func(s *scene) {
		proxy, lost := s.lossy()
		locks := s.clientOf(s.treeStore([]string{proxy.Addr}, curatorstore.Options{}), treeLong)
		s.unlock(s.at(s.name + "-other").lock(locks)) // there is a session
		lost.Start()
		l := s.lock(locks)
		if !lost.Done() {
			s.Fatal("no reply was lost")
		}
		s.queued(1)
		waiting := s.java().Ask("a", "LOCK", s.kind, s.path())
		s.queued(2)
		s.unlock(l)
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		s.java().Must("a", "UNLOCK", s.kind, s.path())
		s.free(s)
	}},
	{"reply of a lock lost", "Java", "Go", func(s *scene) {
		proxy, lost := s.lossy()
		java := &peer{startCurator(s, s.version, []string{proxy.Addr}), ""}
		java.Must("a", "LOCK", s.kind, s.path()+"-other") // it is connected
		lost.Start()
		java.Must("a", "LOCK", s.kind, s.path())
		if !lost.Done() {
			s.Fatal("no reply was lost")
		}
		locks := s.client(treeLong)
		s.busy(locks)
		s.queued(1)
		java.Must("a", "UNLOCK", s.kind, s.path())
		s.unlock(s.lock(locks))
		s.free(s)
	}},
}

// treeSame are the cells that compare.
var treeSame = []cell{
	{"same in the tree", "both", "both", sameInTheTree},
	{"names in one order", "both", "both", sameOrder},
}

// lossy returns a proxy that loses the first reply to the creation of a claim, once it is started.
func (s *scene) lossy() (*servers.Proxy, *servers.LostReply) {
	s.Helper()
	proxy, err := servers.NewProxy(s.tree().ensemble.Addrs()[0])
	must.OK(s, err)
	s.Cleanup(proxy.Close)
	return proxy, proxy.LoseReplyTo(s.path() + "/_c_")
}

var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-\d+)?-`)

// shape is what a program left in the tree, node by node, without what differs in every run: ids,
// numbers of transactions, times and the text for people.
func (s *scene) shape() (all []string) {
	s.Helper()
	for i := 1; i <= len(s.path()); i++ {
		if i == len(s.path()) || s.path()[i] == '/' {
			all = append(all, s.describe(s.path()[:i], s.path()[:i]))
		}
	}
	for _, child := range s.queue() {
		all = append(all, s.describe(s.path()+"/"+child, "PATH/"+ids.ReplaceAllString(child, "ID-")))
	}
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], s.path(), "PATH")
	}
	return all
}

func (s *scene) describe(path, as string) string {
	s.Helper()
	data, stat, err := s.tree().conn.Get(path)
	must.OK(s, err)
	acl, _, err := s.tree().conn.GetACL(path)
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
func sameInTheTree(s *scene) {
	ours, theirs := s.at(s.name+"/deep/go"), s.at(s.name+"/deep/java")
	l := ours.lock(ours.client(treeLong))
	java := s.java()
	java.Must("a", "LOCK", s.kind, theirs.path())
	a, b := ours.shape(), theirs.shape()
	if len(a) < 5 || !slices.Equal(a, b) {
		s.Errorf("Go leaves\n\t%s\nCurator leaves\n\t%s", strings.Join(a, "\n\t"), strings.Join(b, "\n\t"))
	}
	s.unlock(l)
	java.Must("a", "UNLOCK", s.kind, theirs.path())
}

// sameOrder: Go orders the claims as Curator's own sort does. The store is asked who holds each lock of
// a tree of random names, and Curator sorts the names.
func sameOrder(s *scene) {
	java, store := s.java(), s.store(s)
	must.OK(s, makePath(s.tree().conn, s.path()))
	for i := range 30 {
		path := fmt.Sprintf("%s/%d", s.path(), i)
		must.OK(s, makePath(s.tree().conn, path))
		var names []string
		for _, n := range randomNumbers(i, 5) {
			number := fmt.Sprintf("%010d", n)
			name := []string{"_c_" + uuid() + "-lock-" + number, "_c_" + uuid() + "-7-lock-" + number, "_c_" + strings.ReplaceAll(uuid(), "-", "") + "-lock-" + number}[len(names)%3]
			_, err := s.tree().conn.Create(path+"/"+name, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
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
		_, stat, err := s.tree().conn.Get(path + "/" + sorted[0])
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
