// SPDX-License-Identifier: Apache-2.0

package pgadvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore/pgadvisory"
	_ "github.com/jackc/pgx/v5/stdlib"
)

func start(t *testing.T) (*servers.Server, *sql.DB) {
	t.Helper()
	server := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres("fsync=off") })
	return server, connect(t, server)
}

func source(s *servers.Server) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.Port)
}

func connect(t *testing.T, s *servers.Server) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", source(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// other is a connection of a tool.
func other(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ask(t *testing.T, conn *sql.Conn, query string) (got bool) {
	t.Helper()
	if err := conn.QueryRowContext(t.Context(), query).Scan(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestToolsAreExcluded: both spaces of keys, in both directions, with the statements of the tools.
func TestToolsAreExcluded(t *testing.T) {
	t.Parallel()
	_, db := start(t)
	tool := other(t, db)
	for _, key := range []pgadvisory.Key{pgadvisory.Rails("app"), pgadvisory.WithAdvisoryLock("my_lock", 0)} {
		t.Run(key.String(), func(t *testing.T) {
			h, err := pgadvisory.Lock(t.Context(), db, key, nil)
			if err != nil {
				t.Fatal(err)
			}
			if ask(t, tool, "SELECT pg_try_advisory_lock"+key.String()) {
				t.Error("the tool took the lock beside us")
			}
			if err := h.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			if err := h.Unlock(t.Context()); err != nil {
				t.Errorf("the second unlock: %v", err)
			}
			if !ask(t, tool, "SELECT pg_try_advisory_lock"+key.String()) {
				t.Fatal("the lock was not given back")
			}
			if _, err := pgadvisory.TryLock(t.Context(), db, key, nil); !errors.Is(err, pgadvisory.ErrHeld) {
				t.Errorf("TryLock beside the tool: %v", err)
			}
			got := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			go func() {
				got <- pgadvisory.Do(ctx, db, key, nil, func(context.Context) error { return nil })
			}()
			if !ask(t, tool, "SELECT pg_advisory_unlock"+key.String()) {
				t.Error("the tool did not have the lock")
			}
			if err := <-got; err != nil {
				t.Errorf("the wait for the tool: %v", err)
			}
		})
	}
}

func TestLostConnectionEndsTheContext(t *testing.T) {
	t.Parallel()
	server, db := start(t)
	for what, lose := range map[string]func(h *pgadvisory.Held){
		"terminated": func(*pgadvisory.Held) {
			tool := other(t, db)
			ask(t, tool, "SELECT bool_and(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()")
		},
		"silent": func(h *pgadvisory.Held) {
			resume := server.Pause()
			defer resume()
			select {
			case <-h.Context().Done():
			case <-time.After(time.Minute):
			}
		},
	} {
		h, err := pgadvisory.Lock(t.Context(), db, pgadvisory.Goose(), &pgadvisory.Options{Interval: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		lose(h)
		select {
		case <-h.Context().Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s: the context did not end", what)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, pgadvisory.ErrLost) {
			t.Errorf("%s: the cause is %v", what, cause)
		}
		if err := h.Unlock(t.Context()); !errors.Is(err, pgadvisory.ErrLost) {
			t.Errorf("%s: Unlock returned %v", what, err)
		}
		free(t, db, pgadvisory.Goose())
	}
}

// free waits until a lock can be taken, and gives it back.
func free(t *testing.T, db *sql.DB, key pgadvisory.Key) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := pgadvisory.Do(ctx, db, key, nil, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// TestPoolerDoesNotShareALock: two clients of a pooler get the same backend, which has the lock already and would take it
// again for the second.
func TestPoolerDoesNotShareALock(t *testing.T) {
	t.Parallel()
	server, direct := start(t)
	pooler := servers.Test(t, server.Pgbouncer)
	var dbs []*sql.DB
	for range 2 {
		db, err := sql.Open("pgx", source(pooler)+"&default_query_exec_mode=exec")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		dbs = append(dbs, db)
	}
	key := pgadvisory.Whole(7)
	first, err := pgadvisory.TryLock(t.Context(), dbs[0], key, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pgadvisory.TryLock(t.Context(), dbs[1], key, nil)
	if !errors.Is(err, pgadvisory.ErrPooled) && !errors.Is(err, pgadvisory.ErrHeld) {
		t.Errorf("the second client got %v, %v", second, err)
	}
	_ = first.Unlock(t.Context())
	free(t, direct, key) // nothing is left on a backend of the pooler
}

// TestGivingUpLeavesNothing: a wait that ends, and a call that is cut short, leave no connection with a lock in the pool.
func TestGivingUpLeavesNothing(t *testing.T) {
	t.Parallel()
	_, db := start(t)
	key := pgadvisory.Whole(7)
	h, err := pgadvisory.Lock(t.Context(), db, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := pgadvisory.Lock(ctx, db, key, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock returned %v, want the deadline", err)
	}
	if err := h.Unlock(ctx); err != nil {
		t.Errorf("Unlock on a context that has ended: %v", err)
	}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if h, err := pgadvisory.TryLock(ctx, db, key, nil); err == nil {
			if err := h.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		cancel()
	}
	free(t, db, key)
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	server := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres("fsync=off") })
	servers.Example(t, Example, "DATABASE_URL", source(server), "migrating, Rails is excluded: true\n")
}
