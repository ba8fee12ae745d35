// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestConformanceOfAMigration checks the store clauses on a store that holds a lock in the format of
// another library and in ours, on one server.
func TestConformanceOfAMigration(t *testing.T) {
	for name, open := range otherFormats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var harnesses []func(*testing.T) *drivertest.Harness
			for range 4 {
				server := redistest.Start(t)
				harnesses = append(harnesses, migration{old: server, next: server, open: open}.harness)
			}
			checkMigration(t, name, 45, drivertest.Cases(), harnesses...)
		})
	}
}

// TestConformanceOfAMigrationAfterALoss checks the clauses of a data loss if the server of the new store loses its data,
// restarts or fails over, and that of the old one does not.
func TestConformanceOfAMigrationAfterALoss(t *testing.T) {
	for name, open := range withRedlock(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := migration{old: redistest.Start(t), next: redistest.Start(t), open: open}
			cases := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool {
				return c.Clause.ID[0] != 'R' && c.Clause.ID != "T5" || slices.Contains(oldStoreAnswers, c.Name)
			})
			checkMigration(t, name, 8, cases, func(t *testing.T) *drivertest.Harness {
				h, lose := m.harness(t), m.next.Losses()
				h.Reset, h.Restart, h.Checkpoint = lose.Reset, lose.Restart, lose.Checkpoint
				return h
			})
		})
	}
}

// oldStoreAnswers are the cases that need a lock which is free after the loss, or an answer of the new store about it. The old
// store still has the lock, until the client library withdraws what the new store did not give back.
var oldStoreAnswers = []string{
	"R1/data loss", "R1/restarted", "R1/new sessions", "R2/nothing new", "R4/without grace", "R4/after the loss", "R6/lost release, locked again",
}

// migration is a store of two formats, with the server of each.
type migration struct {
	old, next *redistest.Server
	open      func(redis.UniversalClient) (driver.Store, error)
}

func (m migration) harness(t *testing.T) *drivertest.Harness {
	connect := func(server *redistest.Server) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	inOld, inNext := connect(m.old), connect(m.next)
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			old, err := m.open(inOld)
			if err != nil {
				return nil, err
			}
			next, err := redisstore.New(inNext, nil)
			if err != nil {
				return nil, err
			}
			return both.New(both.Stores{Old: old, New: next}, nil)
		},
		Sever: m.next.Pause,
		TTL:   2 * time.Second,
		Slack: 500 * time.Millisecond,
		Soon:  20 * time.Second,
	}
}

// checkMigration runs the cases, of which so many must not be skipped.
func checkMigration(t *testing.T, name string, least int, cases []drivertest.Case, harnesses ...func(*testing.T) *drivertest.Harness) {
	t.Helper()
	cases = slices.DeleteFunc(cases, func(c drivertest.Case) bool {
		// A SET NX lock cannot be broken: it stays until the next renewal of its holder.
		return name == "setnxstore" && (c.Clause.ID == "I4" || c.Clause.ID == "T4")
	})
	report := drivertest.RunCases(t, cases, harnesses...)
	if passed, _, _ := report.Counts(); len(report.Results) == len(cases) && passed < least {
		t.Errorf("only %d cases passed: something is skipped that should not be", passed)
	}
}
