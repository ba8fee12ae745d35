// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgadvisory_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/sqlstore/pgadvisory"
	"github.com/jackc/pgx/v5/stdlib"
)

// stubborn is a driver whose statements do not end with their context, as those of some do not while a server is silent.
type stubborn struct{ driver.Connector }

func (s stubborn) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	return stubbornConn{conn}, err
}

type stubbornConn struct{ driver.Conn }

func (c stubbornConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(context.WithoutCancel(ctx), query, args)
}

// TestSilentServerEndsTheContext: the context of the lock ends, and Unlock returns, although the driver waits for the server.
func TestSilentServerEndsTheContext(t *testing.T) {
	t.Parallel()
	server, direct := start(t)
	connector, err := stdlib.GetDefaultDriver().(driver.DriverContext).OpenConnector(source(server))
	must.OK(t, err)
	db := sql.OpenDB(stubborn{connector})
	h, err := pgadvisory.TryLock(t.Context(), db, pgadvisory.Whole(7), &pgadvisory.Options{Interval: 100 * time.Millisecond})
	must.OK(t, err)
	var backend int
	must.OK(t, direct.QueryRowContext(t.Context(), "SELECT pid FROM pg_locks WHERE locktype = 'advisory'").Scan(&backend))
	must.OK(t, syscall.Kill(backend, syscall.SIGSTOP))
	t.Cleanup(func() { // before the server is stopped
		_ = syscall.Kill(backend, syscall.SIGCONT)
		_ = db.Close()
	})
	done := make(chan error, 1)
	go func() {
		<-h.Context().Done()
		done <- h.Unlock(t.Context())
	}()
	select {
	case err := <-done:
		if !errors.Is(err, pgadvisory.ErrLost) || !errors.Is(context.Cause(h.Context()), pgadvisory.ErrLost) {
			t.Errorf("Unlock returned %v; the context ended with %v", err, context.Cause(h.Context()))
		}
	case <-time.After(time.Minute):
		t.Error("the context has not ended, or Unlock has not returned")
	}
}
