// SPDX-License-Identifier: Apache-2.0

package pgadvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
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
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// other is a connection of a tool.
func other(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ask(t *testing.T, conn *sql.Conn, query string) (got bool) {
	t.Helper()
	must.OK(t, conn.QueryRowContext(t.Context(), query).Scan(&got))
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
			must.OK(t, err)
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
		must.OK(t, err)
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
	must.OK(t, pgadvisory.Do(ctx, db, key, nil, func(context.Context) error { return nil }))
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
		must.OK(t, err)
		t.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(1) // no second connection finds the pooler out
		dbs = append(dbs, db)
	}
	key := pgadvisory.Whole(7)
	first, err := pgadvisory.TryLock(t.Context(), dbs[0], key, nil)
	must.OK(t, err)
	second, err := pgadvisory.TryLock(t.Context(), dbs[1], key, nil)
	if !errors.Is(err, pgadvisory.ErrPooled) && !errors.Is(err, pgadvisory.ErrHeld) {
		t.Errorf("the second client got %v, %v", second, err)
	}
	_ = first.Unlock(t.Context())
	free(t, direct, key) // nothing is left on a backend of the pooler
}

// pooled is a handle through pgbouncer in transaction mode, with its default order of backends: the last one first.
func pooled(t *testing.T, server *servers.Server) *sql.DB {
	t.Helper()
	pooler := servers.Test(t, func() (*servers.Server, error) { return server.PgbouncerWith() })
	db, err := sql.Open("pgx", source(pooler)+"&default_query_exec_mode=exec")
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestPoolerIsFoundByASecondConnection: a pooler that gives us the same backend each time gives it to every other client, too.
func TestPoolerIsFoundByASecondConnection(t *testing.T) {
	t.Parallel()
	server, direct := start(t)
	db := pooled(t, server)
	for _, key := range []pgadvisory.Key{pgadvisory.Goose(), pgadvisory.Pair(-7, 8)} {
		if _, err := pgadvisory.TryLock(t.Context(), db, key, nil); !errors.Is(err, pgadvisory.ErrPooled) {
			t.Errorf("%v: got %v, want ErrPooled", key, err)
		}
		free(t, direct, key)
	}
}

// TestPoolerKeepsNoLock: when statements reach another backend than the one that has the lock, the lock is freed there, although the
// pooler keeps the backend.
func TestPoolerKeepsNoLock(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]pgadvisory.Key{"whole": pgadvisory.Goose(), "pair": pgadvisory.Pair(-7, 8)} {
		for _, notices := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " noticed ", notices), func(t *testing.T) {
				t.Parallel()
				server, direct := start(t)
				db := pooled(t, server)
				db.SetMaxOpenConns(1) // no second connection finds the pooler out
				opts := &pgadvisory.Options{Interval: 200 * time.Millisecond}
				if !notices {
					opts.Interval = time.Hour
				}
				h, err := pgadvisory.TryLock(t.Context(), db, key, opts)
				must.OK(t, err)
				db.SetMaxOpenConns(0)
				tx, err := db.BeginTx(t.Context(), nil) // it gets the backend that has the lock
				must.OK(t, err)
				if _, err := tx.ExecContext(t.Context(), "SELECT 1"); err != nil {
					t.Fatal(err)
				}
				if notices {
					<-h.Context().Done()
				}
				unlocked := make(chan error, 1)
				go func() { unlocked <- h.Unlock(t.Context()) }()
				if notices {
					_ = tx.Rollback()
				}
				if err := <-unlocked; !errors.Is(err, pgadvisory.ErrLost) || !errors.Is(err, pgadvisory.ErrPooled) {
					t.Errorf("unlock: %v, want lost because of the pooler", err)
				}
				_ = tx.Rollback()
				free(t, direct, key)
			})
		}
	}
}

// TestGivingUpLeavesNothing: a wait that ends, and a call that is cut short, leave no connection with a lock in the pool.
func TestGivingUpLeavesNothing(t *testing.T) {
	t.Parallel()
	_, db := start(t)
	key := pgadvisory.Whole(7)
	h, err := pgadvisory.Lock(t.Context(), db, key, nil)
	must.OK(t, err)
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
