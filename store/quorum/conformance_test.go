// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestConformance holds a quorum of five memory stores to the store clauses.
func TestConformance(t *testing.T) {
	for name, opts := range map[string]memstore.Options{
		"plain":    {},
		"grace":    {Grace: true},
		"shards":   {Shards: 7, MinTTL: time.Second},
		"no push":  {NoPush: true},
		"no queue": {NoQueue: true},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.RunInBubble(t, func(t *testing.T) *drivertest.Harness { return harness(t, &opts) })
		})
	}
}

func harness(t *testing.T, opts *memstore.Options) *drivertest.Harness {
	var stores []*memstore.Store
	var nodes []quorum.Node
	for i := range 5 {
		s := memstore.New(opts)
		stores = append(stores, s)
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Store: s})
	}
	all := func(f func(*memstore.Store)) func() error {
		return func() error {
			for _, s := range stores {
				f(s)
			}
			return nil
		}
	}
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			q, err := quorum.New(nodes, &quorum.Options{Alarm: func(a quorum.Alarm) { t.Logf("%+v", a) }})
			if err == nil {
				t.Cleanup(func() { _ = q.Close() })
			}
			return q, err
		},
		Reset:   all((*memstore.Store).Reset),
		Restart: all((*memstore.Store).Restart),
		Checkpoint: func() func() error {
			var snaps []*memstore.Snapshot
			for _, s := range stores {
				snaps = append(snaps, s.Snapshot())
			}
			return func() error {
				for i, s := range stores {
					s.Restore(snaps[i])
				}
				return nil
			}
		},
		Slack: time.Millisecond,
	}
}

// TestPassesBefore: a session that is opened again reaches a node that was reset as its own value.
func TestPassesBefore(t *testing.T) {
	node := locktest.NewTap(memstore.New(nil))
	node.OnAlive = func(context.Context, locktest.AliveFunc) (driver.Renewal, error) {
		return driver.Renewal{}, driver.ErrReset
	}
	drivertest.PassesBefore(t, node, func(inner driver.Store) driver.Store {
		s, err := quorum.New([]quorum.Node{{Name: "a", Store: inner}, {Name: "b", Store: memstore.New(nil)}, {Name: "c", Store: memstore.New(nil)}}, nil)
		must.OK(t, err)
		return s
	})
}
