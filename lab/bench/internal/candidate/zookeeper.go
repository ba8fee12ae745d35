// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/store/zkstore"
)

// FencelockZK is fencelock on zkstore.
var FencelockZK = &Candidate{
	Name: "fencelock-zk", Server: "zk", Bare: "zk-lock", Settings: "defaults: TTL 15 s", Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		store, err := zkstore.New(strings.Split(at.Addr, ","), nil)
		if err != nil {
			return nil, err
		}
		return openOurs(store, n, func() { _ = store.Close() })
	},
}

// ZKLock is the lock recipe of go-zookeeper. It has no tokens, does not notify a holder
// that its lock was lost, and leaves a node behind for each name.
var ZKLock = &Candidate{
	Name: "zk-lock", Server: "zk", Settings: "zk.Lock of go-zookeeper, session timeout 15 s", Waits: true,
	Open: each(func(_ context.Context, addr string) (Locker, error) {
		conn, _, err := zk.Connect(strings.Split(addr, ","), 15*time.Second, zk.WithLogInfo(false))
		return &zkLocker{conn}, err
	}),
}

type zkLocker struct{ conn *zk.Conn }

// Lock implements Locker. The recipe knows no contexts: one that ends while a client
// waits leaves the waiter in the queue, as it does to every program that uses it.
func (z *zkLocker) Lock(ctx context.Context, name string) (Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := zk.NewLock(z.conn, "/zk-lock/"+url.PathEscape(name), zk.WorldACL(zk.PermAll))
	got := make(chan error, 1)
	go func() {
		err := l.Lock()
		if ctx.Err() != nil && err == nil {
			_ = l.Unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		return zkLock{l}, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type zkLock struct{ *zk.Lock }

// Unlock implements Held.
func (l zkLock) Unlock(context.Context) error { return l.Lock.Unlock() }

// Close implements Locker.
func (z *zkLocker) Close() { z.conn.Close() }
