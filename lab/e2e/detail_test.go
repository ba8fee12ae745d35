// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
)

// prepared returns the database with drivers that prepare statements.
func (e *database) prepared(t *testing.T) *sql.DB {
	t.Helper()
	if e.dialect == sqlfence.PostgreSQL {
		cfg, err := pgx.ParseConfig("postgres://postgres@" + e.server.Addr + "/postgres?sslmode=disable")
		must.OK(t, err)
		return stdlib.OpenDB(*cfg)
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName, cfg.ClientFoundRows = "root", "tcp", e.server.Addr, "test", true
	c, err := mysql.NewConnector(cfg)
	must.OK(t, err)
	return sql.OpenDB(c)
}

// TestOtherSettingsOfTheDriver: prepared statements, and, for MySQL, counting
// the rows that were found and not those that were changed.
func TestOtherSettingsOfTheDriver(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		db := e.prepared(t)
		defer db.Close()
		other := *e
		other.db = db
		for _, value := range []func(*database, int64, string) *fencetest.Value{(*database).byTable, (*database).byRow} {
			h := other.harness("other settings", value)
			h.Restart = nil
			for _, c := range fencetest.Cases() {
				if strings.HasSuffix(c.Name, "-in-steps") {
					continue // these drivers announce no steps
				}
				for _, f := range c.Check(t.Context(), h).Failures {
					t.Error(f)
				}
			}
		}
	})
}

func holding(t *testing.T, lock string, token int64, holder string) context.Context {
	return fence.With(t.Context(), fence.Mark{Lock: lock, Token: fencelock.Token(token), Holder: holder})
}

// TestRefusalNamesTheHolder: both guards keep the holder, so a refusal can.
func TestRefusalNamesTheHolder(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		id, err := e.insert(t.Context())
		must.OK(t, err)
		const lock = "names"
		ann, bob := holding(t, lock, 768, "ann@host:1"), holding(t, lock, 512, "bob@host:2")
		for name, raise := range map[string]func(ctx context.Context) error{
			"table": func(ctx context.Context) error { return e.table.Raise(ctx, e.db, lock) },
			"row":   func(ctx context.Context) error { return e.row.Raise(ctx, e.db, lock, id) },
		} {
			must.OK(t, raise(ann))
			var stale *fence.StaleError
			if err := raise(bob); !errors.As(err, &stale) || stale.Newer != (fence.Mark{Lock: lock, Token: 768, Holder: "ann@host:1"}) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

func TestNoSuchRow(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		ctx := holding(t, "a", 512, "")
		for name, err := range map[string]error{
			"raise":  e.row.Raise(ctx, e.db, "a", -1),
			"update": e.row.Update(ctx, e.db, "a", -1, "v = 'x'"),
		} {
			if !errors.Is(err, sql.ErrNoRows) || errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: got %v, want sql.ErrNoRows", name, err)
			}
		}
	})
}

// TestDoRollsBack: what f did, and the fence, are as before if f fails, panics
// or is not run.
func TestDoRollsBack(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		id, err := e.insert(t.Context())
		must.OK(t, err)
		const lock = "rolled back"
		failed := errors.New("failed")
		err = e.table.Do(holding(t, lock, 768, ""), e.db, lock, func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(e.set(ctx, tx, id, "x"), failed)
		})
		if !errors.Is(err, failed) {
			t.Errorf("got %v, want the function's own error", err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = e.table.Do(holding(t, lock, 768, ""), e.db, lock, func(ctx context.Context, tx *sql.Tx) error {
				_ = e.set(ctx, tx, id, "x")
				panic("panicked")
			})
		}()
		ran := false
		err = e.table.Do(holding(t, lock, 512, ""), e.db, lock, func(context.Context, *sql.Tx) error { ran = true; return nil })
		if err != nil || !ran {
			t.Errorf("the fence of a transaction that was rolled back is up: %v", err)
		}
		ran = false
		if err = e.table.Do(holding(t, lock, 511, ""), e.db, lock, func(context.Context, *sql.Tx) error { ran = true; return nil }); !errors.Is(err, fence.ErrStale) || ran {
			t.Errorf("an older token: got %v, and the function ran: %v", err, ran)
		}
		if v, err := e.get(t.Context(), e.db, id); v != "" || err != nil {
			t.Errorf("the row is %q, %v, want it untouched", v, err)
		}
	})
}

// TestEveryLockHasItsOwnFence: even names that differ only in case or blanks.
func TestEveryLockHasItsOwnFence(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		must.OK(t, e.table.Raise(holding(t, "own", 768, ""), e.db, "own"))
		for _, lock := range []string{"Own", "own ", "own\t", "öwn"} {
			if err := e.table.Raise(holding(t, lock, 256, ""), e.db, lock); err != nil {
				t.Errorf("%q: %v", lock, err)
			}
		}
	})
}

// TestStrongerIsolation: a transaction that began with an older view is refused
// or fails to serialize; it is never let in.
func TestStrongerIsolation(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		id, err := e.insert(t.Context())
		must.OK(t, err)
		const lock = "isolated"
		old := holding(t, lock, 512, "")
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			tx, err := e.db.BeginTx(old, &sql.TxOptions{Isolation: level})
			must.OK(t, err)
			// A view of another table: the fence itself is not locked by it.
			var one int
			must.OK(t, tx.QueryRowContext(old, "SELECT 1 FROM guarded WHERE id = "+e.sql("$1"), id).Scan(&one))
			must.OK(t, e.table.Raise(holding(t, lock, 768, ""), e.db, lock))
			if err := e.table.Raise(old, tx, lock); err == nil {
				t.Errorf("%v: the older token was admitted", level)
			}
			_ = tx.Rollback()
		}
	})
}

// TestRowWithATrigger: MariaDB loses LAST_INSERT_ID when the table has one, and a write that was done
// must not be called refused.
func TestRowWithATrigger(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		if e.dialect != sqlfence.MySQL {
			t.Skip("PostgreSQL counts the rows")
		}
		for _, statement := range []string{
			"CREATE TABLE triggered (id BIGINT PRIMARY KEY, v VARCHAR(100), fence BIGINT)", "INSERT INTO triggered (id) VALUES (1)",
			"CREATE TRIGGER trimmed BEFORE UPDATE ON triggered FOR EACH ROW SET NEW.v = TRIM(NEW.v)",
		} {
			_, err := e.db.ExecContext(t.Context(), statement)
			must.OK(t, err)
		}
		t.Cleanup(func() { _, _ = e.db.Exec("DROP TABLE triggered") })
		row, err := sqlfence.NewRow(e.dialect, &sqlfence.RowOptions{Table: "triggered", Key: "id"})
		must.OK(t, err)
		const lock = "a trigger"
		for _, db := range []*sql.DB{e.db, e.prepared(t)} {
			for range 2 { // the second changes nothing
				must.OK(t, row.Update(holding(t, lock, 768, ""), db, lock, 1, "v = ?", "x"))
			}
			if err := row.Update(holding(t, lock, 512, ""), db, lock, 1, "v = ?", "late"); !errors.Is(err, fence.ErrStale) {
				t.Errorf("an older token: got %v", err)
			}
			if err := row.Raise(holding(t, lock, 768, ""), db, lock, 2); !errors.Is(err, sql.ErrNoRows) {
				t.Errorf("no such row: got %v", err)
			}
		}
		tx, err := e.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		must.OK(t, err)
		defer tx.Rollback()
		_, _ = tx.Exec("SET SESSION innodb_snapshot_isolation = OFF") // else an older view is found before
		var v string
		must.OK(t, tx.QueryRow("SELECT v FROM triggered").Scan(&v))
		must.OK(t, row.Update(holding(t, lock, 1024, ""), e.other.db, lock, 1, "v = ?", "y"))
		if err := row.Update(holding(t, lock, 768, ""), tx, lock, 1, "v = ?", "x"); !errors.Is(err, fence.ErrStale) {
			t.Errorf("an older token with an older view of the row: got %v", err)
		}
	})
}
