// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// quorumNode is one of the servers and a way to it.
type quorumNode struct {
	opts    redisstore.Options
	server  *servers.RedisServer
	rueidis bool // the client library, instead of go-redis
}

// open returns a store on a new client of the server. Both end with the test.
func (r *quorumNode) open(t testing.TB) driver.Store {
	t.Helper()
	if !r.rueidis {
		c := redis.NewClient(&redis.Options{Addr: r.server.Addr, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = c.Close() })
		s, err := redisstore.New(c, &r.opts)
		must.OK(t, err)
		return s
	}
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.server.Addr}, DisableCache: true, ForceSingleClient: true,
		// The default of half a megabyte each way is a lot for so many clients.
		PipelineMultiplex: -1, ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14})
	must.OK(t, err)
	t.Cleanup(c.Close)
	s, err := rueidisstore.New(c, (*rueidisstore.Options)(&r.opts))
	must.OK(t, err)
	return s
}

// restart kills the server and starts it again, empty.
func (r *quorumNode) restart(t testing.TB) {
	t.Helper()
	must.OK(t, r.server.Restart())
}

// quorumRig is five servers used as a quorum. Tests with one run one after the other:
// five servers are enough for two processors.
type quorumRig struct{ nodes []*quorumNode }

const quorumSize = 5

func newQuorumRig(t testing.TB, opts redisstore.Options) *quorumRig {
	q := &quorumRig{}
	for range quorumSize {
		server := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
		q.nodes = append(q.nodes, &quorumNode{opts: opts, server: server})
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
		s := r.open(t)
		if wrap != nil {
			s = wrap(i, s)
		}
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Store: s})
	}
	store, err := quorum.New(nodes, &quorum.Options{Alarm: func(a quorum.Alarm) { t.Logf("alarm: %+v", a) }})
	must.OK(t, err)
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
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = c.Close(ctx)
		_ = store.Close()
	})
	return &quorumProcess{c, store}
}
