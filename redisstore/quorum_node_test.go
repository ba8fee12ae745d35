// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
)

// quorumNode is one of the servers and a way to it.
type quorumNode struct {
	lib    library
	opts   redisstore.Options
	server *redistest.Server
	login  login
}

// quorumRig is five servers used as a quorum. Tests with one run one after the other:
// five servers are enough for two processors.
type quorumRig struct{ nodes []*quorumNode }

const quorumSize = 5

func newQuorumRig(t testing.TB, opts redisstore.Options) *quorumRig {
	q := &quorumRig{}
	for range quorumSize {
		server := redistest.Start(t)
		q.nodes = append(q.nodes, &quorumNode{lib: libraries[0], opts: opts, server: server, login: login{addr: server.Addr}})
	}
	return q
}

// each does something to all servers at once.
func (q *quorumRig) each(f func(r *quorumNode) error) error {
	results := make(chan error, len(q.nodes))
	for _, r := range q.nodes {
		go func() { results <- f(r) }()
	}
	var all error
	for range q.nodes {
		all = errors.Join(all, <-results)
	}
	return all
}

// store is a process's view of the servers; it ends with the test.
func (q *quorumRig) store(t testing.TB, wrap func(i int, s driver.Store) driver.Store) *quorum.Store {
	t.Helper()
	var nodes []quorum.Node
	for i, r := range q.nodes {
		var s driver.Store = r.lib.open(t, r.login, &r.opts).Store
		if wrap != nil {
			s = wrap(i, s)
		}
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Store: s})
	}
	store, err := quorum.New(nodes, &quorum.Options{Alarm: func(a quorum.Alarm) { t.Logf("alarm: %+v", a) }})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// quorumProcess is a client with the quorum it uses.
type quorumProcess struct {
	*fencelock.Client
	store *quorum.Store
}

// process is a client of the servers.
func (q *quorumRig) process(t testing.TB, opts *fencelock.Options) *quorumProcess {
	t.Helper()
	return q.processOf(t, opts, nil)
}

// processOf is process with the stores wrapped.
func (q *quorumRig) processOf(t testing.TB, opts *fencelock.Options, wrap func(i int, s driver.Store) driver.Store) *quorumProcess {
	t.Helper()
	store := q.store(t, wrap)
	c, err := fencelock.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = c.Close(ctx)
		store.Wait()
	})
	return &quorumProcess{c, store}
}
