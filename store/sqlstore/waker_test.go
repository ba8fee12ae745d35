// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestGrantBeforeTheWaitIsFound: a claim that was far from the front of the queue, and not listened for, is granted the lock before
// it begins to wait. It finds that out by itself, whatever wakes claims.
func TestGrantBeforeTheWaitIsFound(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		holder := open(t, k.store(t, db, &opts))
		attempt(t, holder, plain(1, "x"), driver.Granted)
		s := k.store(t, k.connect(t, server.Port), &opts)
		sqlstore.SetPace(s, "x", 30, 10*time.Millisecond)
		ss := open(t, s)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		awaitGrant(t, ss)
	})
}

// TestGrantBehindAHolderThatFoundTheLockFree: such a holder has no handoff lock, so the claim behind it polls.
func TestGrantBehindAHolderThatFoundTheLockFree(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		holder := open(t, k.store(t, db, &opts))
		attempt(t, holder, plain(1, "x"), driver.Granted)
		ss := open(t, k.store(t, k.connect(t, server.Port), &opts))
		attempt(t, ss, queued(1, "x"), driver.Queued)
		timer := time.AfterFunc(200*time.Millisecond, func() { _, _ = holder.Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"}) })
		defer timer.Stop()
		awaitGrant(t, ss)
	})
}

// awaitGrant fails unless claim 1 for x is granted while no other call is made.
func awaitGrant(t *testing.T, ss driver.Session) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctxb, patience(t))
	defer cancel()
	if out, err := ss.Await(ctx, queued(1, "x")); err != nil || out.State != driver.Granted {
		t.Fatalf("got %+v, %v; want it granted", out, err)
	}
}
