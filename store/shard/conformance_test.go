// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/shard"
)

// TestConformance checks the store clauses on a store of several members. All members
// lose their data together. That covers the loss of one member's data, because a case
// checks the names of one shard.
func TestConformance(t *testing.T) {
	kinds := map[string]*memstore.Options{
		"plain":         nil,
		"grace":         {Grace: true},
		"several parts": {Shards: 3, MinTTL: time.Second},
		"no push":       {NoPush: true},
		"no queue":      {NoQueue: true},
	}
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			drivertest.RunInBubble(t, func(t *testing.T) *drivertest.Harness { return harness(t, opts) })
		})
	}
}

func harness(t *testing.T, opts *memstore.Options) *drivertest.Harness {
	var mems []*memstore.Store
	for range 4 {
		mems = append(mems, memstore.New(opts))
	}
	return &drivertest.Harness{
		Open: func() (driver.Store, error) { return over(t, mems), nil },
		Reset: func() error {
			for _, m := range mems {
				m.Reset()
			}
			return nil
		},
		Restart: func() error {
			for _, m := range mems {
				m.Restart()
			}
			return nil
		},
		Checkpoint: func() func() error {
			var snaps []*memstore.Snapshot
			for _, m := range mems {
				snaps = append(snaps, m.Snapshot())
			}
			return func() error {
				for i, m := range mems {
					m.Restore(snaps[i])
				}
				return nil
			}
		},
		Slack: time.Millisecond,
	}
}

// over returns a store over these, called m0, m1 and so on.
func over(t *testing.T, mems []*memstore.Store) *shard.Store {
	t.Helper()
	var members []shard.Member
	for i, m := range mems {
		members = append(members, shard.Member{Name: fmt.Sprint("m", i), Store: m})
	}
	return made(t, members...)
}

func made(t *testing.T, members ...shard.Member) *shard.Store {
	t.Helper()
	s, err := shard.New(members, nil)
	must.OK(t, err)
	return s
}

// TestPassesBefore: a session that is opened again reaches its member as its own value.
func TestPassesBefore(t *testing.T) {
	drivertest.PassesBefore(t, memstore.New(nil), func(inner driver.Store) driver.Store {
		s, err := shard.New([]shard.Member{{Name: "a", Store: inner}}, nil)
		must.OK(t, err)
		return s
	})
}
