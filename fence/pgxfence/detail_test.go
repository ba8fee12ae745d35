// SPDX-License-Identifier: Apache-2.0

package pgxfence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/pgxfence"
	"github.com/fencelock/fencelock/internal/must"
)

// TestBatchIsOneTransactionInEveryMode: a batch that is rejected changes nothing, and one
// whose last statement fails does not raise the fence, however pgx sends it.
func TestBatchIsOneTransactionInEveryMode(t *testing.T) {
	p := need(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			pool, err := pgxpool.New(t.Context(), p.url()+"&default_query_exec_mode="+mode)
			must.OK(t, err)
			defer pool.Close()
			id, err := p.insert(t.Context())
			must.OK(t, err)
			lock := "batch " + mode
			send := func(token int64, more ...string) error {
				b := &pgx.Batch{}
				b.Queue(setSQL, "x", id)
				for _, m := range more {
					b.Queue(m)
				}
				return p.table.SendBatch(holding(t, lock, token, ""), pool, lock, b).Close()
			}
			var server *pgconn.PgError
			if err := send(768, "SELECT 1/(SELECT 0)"); !errors.As(err, &server) || server.Code != "22012" || errors.Is(err, fence.ErrStale) {
				t.Errorf("the last statement fails: got %v", err)
			}
			if v, err := get(t.Context(), pool, id); v != "" || err != nil {
				t.Errorf("a batch that failed wrote %q, %v", v, err)
			}
			must.OK(t, p.table.Raise(holding(t, lock, 512, ""), pool, lock)) // 768 was not raised
			for range 2 {                                                    // in some modes pgx has a statement prepared now
				if err := send(511); !errors.Is(err, fence.ErrStale) {
					t.Errorf("an older token: got %v", err)
				}
			}
			if v, err := get(t.Context(), pool, id); v != "" || err != nil {
				t.Errorf("a batch that was rejected wrote %q, %v", v, err)
			}
			must.OK(t, send(512))
			if v, err := get(t.Context(), pool, id); v != "x" || err != nil {
				t.Errorf("the batch of the holder wrote %q, %v", v, err)
			}
		})
	}
}

// TestResultsAreThoseOfTheCaller: the statement that raises the fence is not among them.
func TestResultsAreThoseOfTheCaller(t *testing.T) {
	p := need(t)
	const lock = "results"
	batch := func() *pgx.Batch {
		b := &pgx.Batch{}
		for _, n := range []string{"1", "2", "3"} {
			b.Queue("SELECT " + n + "::int")
		}
		return b
	}
	read := func(r pgx.BatchResults) (n []int, err error) {
		var one int
		err = r.QueryRow().Scan(&one)
		rows, err2 := r.Query()
		two, err3 := pgx.CollectRows(rows, pgx.RowTo[int])
		_, err4 := r.Exec()
		return append([]int{one}, two...), errors.Join(err, err2, err3, err4, r.Close())
	}
	n, err := read(p.table.SendBatch(holding(t, lock, 512, ""), p.pool, lock, batch()))
	if err != nil || len(n) != 2 || n[0] != 1 || n[1] != 2 {
		t.Errorf("got %v, %v", n, err)
	}
	for what, ctx := range map[string]context.Context{"an older token": holding(t, lock, 511, ""), "no token": t.Context()} {
		want := map[string]error{"an older token": fence.ErrStale, "no token": fence.ErrNoToken}[what]
		_, err := read(p.table.SendBatch(ctx, p.pool, lock, batch()))
		if !errors.Is(err, want) || strings.Count(err.Error(), want.Error()) != 5 {
			t.Errorf("%s: got %v, want %v from each", what, err, want)
		}
	}
}

// TestIgnoredRejectionCannotWrite: the server refuses what follows in the transaction.
func TestIgnoredRejectionCannotWrite(t *testing.T) {
	p := need(t)
	id, err := p.insert(t.Context())
	must.OK(t, err)
	const lock = "ignored"
	must.OK(t, p.table.Raise(holding(t, lock, 768, ""), p.pool, lock))
	tx, err := p.pool.Begin(t.Context())
	must.OK(t, err)
	_ = p.table.Raise(holding(t, lock, 512, ""), tx, lock)
	_ = set(t.Context(), tx, id, "late")
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("commit: got %v", err)
	}
	if v, err := get(t.Context(), p.pool, id); v != "" || err != nil {
		t.Errorf("the row is %q, %v", v, err)
	}
}

// TestDoRollsBack: what f did, and the fence, are as before if f fails, panics or ignores an
// error; and the connection is not lost, even if the context has ended.
func TestDoRollsBack(t *testing.T) {
	p := need(t)
	id, err := p.insert(t.Context())
	must.OK(t, err)
	pool, err := pgxpool.New(t.Context(), p.url()+"&pool_max_conns=1")
	must.OK(t, err)
	defer pool.Close()
	var before, after uint32
	pid := func() (n uint32) {
		must.OK(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&n))
		return n
	}
	before = pid()
	const lock = "rolled back"
	failed := errors.New("failed")
	ctx, cancel := context.WithCancel(holding(t, lock, 768, ""))
	err = p.table.Do(ctx, pool, lock, func(ctx context.Context, tx pgx.Tx) error {
		defer cancel()
		return errors.Join(set(ctx, tx, id, "x"), failed)
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
		_ = p.table.Do(holding(t, lock, 768, ""), pool, lock, func(ctx context.Context, tx pgx.Tx) error {
			_ = set(ctx, tx, id, "x")
			panic("panicked")
		})
	}()
	err = p.table.Do(holding(t, lock, 768, ""), pool, lock, func(ctx context.Context, tx pgx.Tx) error {
		_ = set(ctx, tx, id, "x")
		_, _ = tx.Exec(ctx, "SELECT 1/(SELECT 0)")
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) || strings.Contains(err.Error(), "unknown") {
		t.Errorf("an error that was ignored: got %v", err)
	}
	if after = pid(); before != after {
		t.Errorf("the pool lost its connection: %d, then %d", before, after)
	}
	must.OK(t, p.table.Do(holding(t, lock, 512, ""), pool, lock, func(context.Context, pgx.Tx) error { return nil }))
	ran := false
	err = p.table.Do(holding(t, lock, 511, ""), pool, lock, func(context.Context, pgx.Tx) error { ran = true; return nil })
	if !errors.Is(err, fence.ErrStale) || ran {
		t.Errorf("an older token: got %v, and the function ran: %v", err, ran)
	}
	if v, err := get(t.Context(), pool, id); v != "" || err != nil {
		t.Errorf("the row is %q, %v, want it untouched", v, err)
	}
}

// TestRejectionNamesTheHolder, also one with quotes in its name, and in a batch.
func TestRejectionNamesTheHolder(t *testing.T) {
	p := need(t)
	id, err := p.insert(t.Context())
	must.OK(t, err)
	for _, holder := range []string{"ann@host:1", `"ann" at home`, ""} {
		lock := "names " + holder
		for name, raise := range map[string]func(ctx context.Context) error{
			"table": func(ctx context.Context) error { return p.table.Raise(ctx, p.pool, lock) },
			"batch": func(ctx context.Context) error { return p.table.SendBatch(ctx, p.pool, lock, &pgx.Batch{}).Close() },
			"row":   func(ctx context.Context) error { return p.row.Raise(ctx, p.pool, lock, id) },
		} {
			must.OK(t, raise(holding(t, lock, 768, holder)))
			var stale *fence.StaleError
			if err := raise(holding(t, lock, 512, "bob")); !errors.As(err, &stale) || stale.Newer != (fence.Mark{Lock: lock, Token: 768, Holder: holder}) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

func TestNoSuchRow(t *testing.T) {
	p := need(t)
	ctx := holding(t, "a", 512, "")
	for name, err := range map[string]error{
		"raise":  p.row.Raise(ctx, p.pool, "a", -1),
		"update": p.row.Update(ctx, p.pool, "a", -1, "v = 'x'"),
	} {
		if !errors.Is(err, pgx.ErrNoRows) || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: got %v, want pgx.ErrNoRows", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	p := need(t)
	must.OK(t, p.row.Check(t.Context(), p.pool))
	for column, want := range map[string]string{"v": "must be BIGINT", "nothing": "no column nothing"} {
		row, err := pgxfence.NewRow(&pgxfence.RowOptions{Table: "guarded", Key: "id", Fence: column})
		must.OK(t, err)
		if err := row.Check(t.Context(), p.pool); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", column, err, want)
		}
	}
}

// TestOtherErrorsAreNoRejections: a table that is missing is not a newer holder.
func TestOtherErrorsAreNoRejections(t *testing.T) {
	p := need(t)
	table, err := pgxfence.NewTable(&pgxfence.TableOptions{Name: "missing"})
	must.OK(t, err)
	err = table.Raise(holding(t, "a", 512, ""), p.pool, "a")
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "raise the fence in missing") {
		t.Errorf("got %v", err)
	}
	if _, err := pgxfence.NewTable(&pgxfence.TableOptions{Name: "a; DROP"}); err == nil {
		t.Error("a name that is none was accepted")
	}
	if _, err := pgxfence.NewRow(nil); err == nil {
		t.Error("rows of no table were accepted")
	}
}
