// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/go-zookeeper/zk"
)

// onZooKeeper returns a function that opens connections to a server.
func onZooKeeper(t *testing.T) func(t *testing.T) *zk.Conn {
	t.Helper()
	addrs := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(1) }).Addrs()
	return func(t *testing.T) *zk.Conn {
		conn, _, err := zk.Connect(addrs, 15*time.Second, zk.WithLogInfo(false))
		must.OK(t, err)
		t.Cleanup(conn.Close)
		return conn
	}
}

// zkPeer is an old lock of ZooKeeper, taken by try.
func zkPeer(conn *zk.Conn, try func(t *testing.T, path string) func()) *peer {
	at := func(t *testing.T, name string) string {
		if _, err := conn.Create("/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
		return "/" + name
	}
	return &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			if _, err := conn.Create("/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
				return err
			}
			return withZooKeeper(ctx, locks, conn, "/"+name, name, do)
		},
		try: func(t *testing.T, name string) func() { return try(t, at(t, name)) },
		lose: func(t *testing.T, name string) {
			for _, node := range nodesBelow(t, conn, "/"+name) {
				must.OK(t, conn.Delete("/"+name+"/"+node, -1))
			}
		},
	}
}

func nodesBelow(t *testing.T, conn *zk.Conn, path string) []string {
	t.Helper()
	nodes, _, err := conn.Children(path)
	must.OK(t, err)
	return nodes
}

// TestZooKeeperLock: the old process is zk.Lock of go-zookeeper.
func TestZooKeeperLock(t *testing.T) {
	t.Parallel()
	open := onZooKeeper(t)
	conn := open(t)
	check(t, zkPeer(conn, func(t *testing.T, path string) func() {
		theirs := open(t)
		old := zk.NewLock(theirs, path, zk.WorldACL(zk.PermAll))
		done := make(chan error, 1)
		go func() { done <- old.Lock() }()
		for began := time.Now(); time.Since(began) < patience; {
			select {
			case err := <-done:
				must.OK(t, err)
				return func() { _ = old.Unlock() } // the next step finds out
			case <-time.After(5 * time.Millisecond):
			}
			if len(nodesBelow(t, conn, path)) > 1 { // it is queued
				theirs.Close() // and its node goes with the session
				<-done
				return nil
			}
		}
		t.Fatal("the old lock is neither held nor queued")
		return nil
	}))
}

// TestCurator: the old process is played by a node with the name that Curator's
// InterProcessMutex gives and by its rule, as read in the source of 5.9.0. Curator
// itself is not run here.
func TestCurator(t *testing.T) {
	t.Parallel()
	conn := onZooKeeper(t)(t)
	check(t, zkPeer(conn, func(t *testing.T, path string) func() {
		const uuid = "f290140d-9856-42ad-b9bf-348ffc086062"
		node, err := conn.Create(path+"/_c_"+uuid+"-lock-", []byte("10.1.2.3"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		must.OK(t, err)
		key := func(child string) string { return child[strings.LastIndex(child, "lock-")+len("lock-"):] }
		nodes := nodesBelow(t, conn, path)
		slices.SortFunc(nodes, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
		release := func() { _ = conn.Delete(node, -1) } // the next step finds out
		if path+"/"+nodes[0] != node {
			release()
			return nil
		}
		return release
	}))
}

// onMariaDB returns a database with the table methodLock.
func onMariaDB(t *testing.T) *sql.DB {
	t.Helper()
	server := servers.Test(t, func() (*servers.Server, error) { return servers.MariaDB("innodb-flush-log-at-trx-commit=2") })
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", server.Port))
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	execute(t, db, "CREATE TABLE methodLock (id INT AUTO_INCREMENT PRIMARY KEY, method_name VARCHAR(64) NOT NULL UNIQUE, `desc` VARCHAR(1024) NOT NULL)")
	return db
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func TestGetLock(t *testing.T) {
	t.Parallel()
	db := onMariaDB(t)
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withGetLock(ctx, locks, db, name, do)
		},
		try: func(t *testing.T, name string) func() {
			conn, err := db.Conn(t.Context())
			must.OK(t, err)
			var got bool
			must.OK(t, conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 0)", name).Scan(&got))
			if !got {
				_ = conn.Close()
				return nil
			}
			return func() {
				_, _ = conn.ExecContext(context.Background(), "DO RELEASE_LOCK(?)", name) // the next step finds out
				_ = conn.Close()
			}
		},
		lose: func(t *testing.T, name string) {
			var id int
			must.OK(t, db.QueryRowContext(t.Context(), "SELECT IS_USED_LOCK(?)", name).Scan(&id))
			execute(t, db, fmt.Sprintf("KILL %d", id))
		},
	})
}

func TestMethodLock(t *testing.T) {
	t.Parallel()
	db := onMariaDB(t)
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withMethodLock(ctx, locks, db, name, do)
		},
		try: func(t *testing.T, name string) func() {
			if _, err := db.ExecContext(t.Context(), "INSERT INTO methodLock (method_name, `desc`) VALUES (?, 'old')", name); err != nil {
				return nil
			}
			return func() { execute(t, db, "DELETE FROM methodLock WHERE method_name = ?", name) }
		},
		lose: func(t *testing.T, name string) { execute(t, db, "DELETE FROM methodLock WHERE method_name = ?", name) },
	})
}

func TestRowLock(t *testing.T) {
	t.Parallel()
	db := onMariaDB(t)
	execute(t, db, "INSERT INTO methodLock (method_name, `desc`) VALUES ('a', ''), ('b', '')")
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withRowLock(ctx, locks, db, name, do)
		},
		try: func(t *testing.T, name string) func() {
			tx, err := db.BeginTx(t.Context(), nil)
			must.OK(t, err)
			var id int
			if tx.QueryRowContext(t.Context(), "SELECT id FROM methodLock WHERE method_name = ? FOR UPDATE NOWAIT", name).Scan(&id) != nil {
				_ = tx.Rollback()
				return nil
			}
			return func() { _ = tx.Rollback() } // the next step finds out
		},
		lose: func(t *testing.T, _ string) {
			var id int
			must.OK(t, db.QueryRowContext(t.Context(), "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx LIMIT 1").Scan(&id))
			execute(t, db, fmt.Sprintf("KILL %d", id))
		},
	})
}
