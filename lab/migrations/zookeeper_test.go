// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"errors"
	"strconv"

	"github.com/fencelock/fencelock"
	"github.com/go-zookeeper/zk"
)

// withZooKeeper does the work while holding fencelock's lock and an ephemeral sequential
// node below path, named as zk.Lock and Curator's InterProcessMutex name theirs. The
// node path must exist.
func withZooKeeper(ctx context.Context, locks *fencelock.Client, conn *zk.Conn, path, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		node, err := conn.CreateProtectedEphemeralSequential(path+"/lock-", nil, zk.WorldACL(zk.PermAll)) // the ACL as before
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Delete(node, -1)) }()
		lost, err := awaitFirst(ctx, conn, path, node)
		if err != nil {
			return err
		}
		held, stop := watch(ctx, lost)
		defer stop()
		return do(held, l)
	})
}

// awaitFirst waits until no node below path has a lower number than node. It returns a
// channel that is ready when node changes, is deleted, or ends with its session.
func awaitFirst(ctx context.Context, conn *zk.Conn, path, node string) (<-chan zk.Event, error) {
	for {
		children, _, err := conn.Children(path)
		if err != nil {
			return nil, err
		}
		before, highest := "", -1
		for _, child := range children {
			if n := sequence(child); n < sequence(node) && n > highest {
				before, highest = child, n
			}
		}
		if before == "" {
			_, _, lost, err := conn.GetW(node)
			return lost, err
		}
		_, _, changed, err := conn.GetW(path + "/" + before)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// sequence returns the number that ZooKeeper put at the end of a name, or -1.
func sequence(node string) int {
	if n, err := strconv.Atoi(node[max(0, len(node)-10):]); err == nil {
		return n
	}
	return -1
}
