// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
)

// TestConformance checks the store clauses on one server, with every client
// library, with and without grace. Nearly all of its time is waiting, so the cases
// of a combination are shared out to several servers.
func TestConformance(t *testing.T) {
	for _, lib := range libraries {
		for _, grace := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/grace=%t", lib.name, grace), func(t *testing.T) {
				t.Parallel()
				opts, servers := redisstore.Options{}, 6
				if grace { // cases that lose the memory wait for a grace, which lasts a MaxTTL
					opts, servers = redisstore.Options{Grace: true, MaxTTL: 3 * time.Second}, 10
				}
				rigs := make([]*rig, servers)
				for i := range rigs {
					server := redistest.Start(t)
					rigs[i] = &rig{lib: lib, opts: opts, server: server, login: login{addr: server.Addr}}
				}
				conform(t, drivertest.Cases(), rigs)
			})
		}
	}
}

// rig is a server and a way to it, for one case after the other.
type rig struct {
	lib    library
	opts   redisstore.Options
	server *redistest.Server
	login  login
	open   []*client
}

// spaces makes every case work in a namespace of its own, so that cases that
// lose the memory or wait for a grace do not disturb the next.
var spaces atomic.Int64

// harness returns a harness for one case; close what it opened with done.
func (r *rig) harness() *drivertest.Harness {
	opts := r.opts
	if !opts.Grace && opts.Namespace == "" { // with grace a fresh one would cost a MaxTTL each time
		opts.Namespace = fmt.Sprintf("space%d", spaces.Add(1))
	}
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			c, err := r.lib.dial(r.login, &opts)
			if err != nil {
				return nil, err
			}
			r.open = append(r.open, c)
			return c.Store, nil
		},
		TTL:     600 * time.Millisecond,
		Slack:   200 * time.Millisecond, // many servers share few processors here
		Soon:    5 * time.Second,
		Forget:  func() error { return r.server.Do("FLUSHALL").Err() },
		Restart: func() error { return r.back(r.server.Reboot()) },
		Checkpoint: func() func() error {
			rewind, err := r.server.Checkpoint()
			if err != nil {
				return func() error { return err }
			}
			return func() error { return r.back(rewind()) }
		},
		Sever: r.server.Stop,
	}
}

// back makes every client notice that its connections are broken. That the first
// call after a restart may fail is so, and known to the core; the cases are about
// what comes after.
func (r *rig) back(err error) error {
	for _, c := range r.open {
		for tries := 0; err == nil && c.ping(context.Background()) != nil; tries++ {
			if tries == 100 {
				err = fmt.Errorf("%s does not find the server again", r.lib.name)
			}
		}
	}
	return err
}

func (r *rig) done() {
	for _, c := range r.open {
		c.close()
	}
	r.open = nil
}

// station is a place to run one case after the other.
type station interface {
	harness() *drivertest.Harness
	done()
}

// conform runs each case on whichever server is free. The last in the list take
// longest, so it begins with them.
func conform[S station](t *testing.T, cases []drivertest.Case, rigs []S) {
	results := make([]chan drivertest.Result, len(cases))
	for i := range results {
		results[i] = make(chan drivertest.Result, 1)
	}
	var left atomic.Int64
	left.Store(int64(len(cases)))
	var working sync.WaitGroup
	defer working.Wait()
	for _, r := range rigs {
		working.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				results[i] <- cases[i].Check(t.Context(), r.harness())
				r.done()
			}
		})
	}
	skipped := 0
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			result := <-results[i]
			for _, f := range result.Failures {
				t.Error(f)
			}
			if result.Skipped != "" {
				skipped++
				t.Skip(result.Skipped)
			}
		})
	}
	t.Logf("%d cases, %d skipped, %d servers", len(cases), skipped, len(rigs))
}
