// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/internal/must"
)

// other is another program: a plain client of ZooKeeper.
type other struct {
	*zk.Conn
	t testing.TB
}

func join(t testing.TB, addrs []string) *other {
	t.Helper()
	conn, _, err := zk.Connect(addrs, 20*time.Second, zk.WithLogInfo(false))
	must.OK(t, err)
	t.Cleanup(conn.Close)
	return &other{conn, t}
}

// claim creates a node as Curator does, and what is above it.
func (o *other) claim(path, word string, data []byte) (node string) {
	o.t.Helper()
	for i := 1; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			if _, err := o.Create(path[:i], nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				o.t.Fatal(err)
			}
		}
	}
	node, err := o.CreateProtectedEphemeralSequential(path+"/"+word, data, zk.WorldACL(zk.PermAll))
	must.OK(o.t, err)
	return node
}

func (o *other) children(path string) []string {
	o.t.Helper()
	names, _, err := o.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		o.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// only returns the one node below a path.
func (o *other) only(path string) string {
	o.t.Helper()
	names := o.children(path)
	if len(names) != 1 {
		o.t.Fatalf("below %s there are %v, want one node", path, names)
	}
	return path + "/" + names[0]
}
