// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// quorumNode is one of the servers and a way to it.
type quorumNode struct {
	opts   native.Options
	server *redistest.Server
	login  login
}

// quorumRig is five servers used as a quorum.
type quorumRig struct{ nodes []*quorumNode }

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

// TestQuorumConformance holds a quorum of five servers to the store clauses, with and
// without grace. Scripts see one clock that is moved on instead of waiting, so that
// nothing depends on how busy the machine is; only silence and restarts are real. It is here
// because of that clock; the other tests of a quorum on servers are in lab/e2e/quorum.
func TestQuorumConformance(t *testing.T) {
	t.Parallel()
	clock := newClock()
	q := &quorumRig{}
	for range 5 {
		server := redistest.Start(t)
		q.nodes = append(q.nodes, &quorumNode{server: server, login: login{Addr: server.Addr, Hook: clock, Wrap: clock.wrap}})
	}
	for _, grace := range []bool{false, true} {
		t.Run(fmt.Sprintf("grace=%t", grace), func(t *testing.T) {
			for _, r := range q.nodes {
				r.opts = native.Options{Namespace: fmt.Sprint("grace", grace), Grace: grace, MaxTTL: 5 * time.Minute}
			}
			drivertest.RunCases(t, drivertest.Cases(), on(q.harness(t, clock)))
		})
	}
}

// harness is for all cases, one after the other.
func (q *quorumRig) harness(t *testing.T, clock *clock) *drivertest.Harness {
	var open []*client
	back := func(err error) error { // every client notices that its connections are broken
		for _, c := range open {
			for tries := 0; err == nil && c.ping(context.Background()) != nil; tries++ {
				if tries == 100 {
					err = fmt.Errorf("a client does not find its server again")
				}
			}
		}
		return err
	}
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			var nodes []quorum.Node
			for i, r := range q.nodes {
				c := libraries[0].open(t, r.login, &r.opts)
				open = append(open, c)
				nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Store: c.Store})
			}
			// A machine that stalls for a second is no node that is away.
			s, err := quorum.New(nodes, &quorum.Options{NodeTimeout: 5 * time.Second, Alarm: func(quorum.Alarm) {}})
			if err == nil {
				t.Cleanup(func() { _ = s.Close() })
			}
			return s, err
		},
		Elapse: clock.elapse,
		TTL:    20 * time.Second, // patience with a silent server is a fortieth
		Slack:  6 * time.Second,
		Soon:   30 * time.Second,
		Reset:  func() error { return q.each(func(r *quorumNode) error { return r.server.Do("FLUSHALL").Err() }) },
		Restart: func() error {
			return back(q.each(func(r *quorumNode) error { return r.server.Reboot() }))
		},
		Checkpoint: func() func() error {
			rewinds := map[*quorumNode]func() error{}
			for _, r := range q.nodes {
				rewinds[r] = r.server.Losses().Checkpoint()
			}
			return func() error { return back(q.each(func(r *quorumNode) error { return rewinds[r]() })) }
		},
		Sever: func() func() {
			var heal []func()
			for _, r := range q.nodes {
				heal = append(heal, r.server.Pause())
			}
			return func() {
				for _, f := range heal {
					f()
				}
			}
		},
	}
}
