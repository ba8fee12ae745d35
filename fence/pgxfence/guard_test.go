// SPDX-License-Identifier: Apache-2.0

package pgxfence_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/pgxfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// steps makes every statement and every batch a step of fencetest. Begin and commit are
// statements to pgx.
type steps struct{}

func (steps) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	fencetest.Step(ctx)
	return ctx
}

func (steps) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (steps) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	fencetest.Step(ctx)
	return ctx
}

func (steps) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (steps) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// process is what one process has: a pool and guards.
type process struct {
	server *servers.Server
	rows   *atomic.Int64 // the last row that was made
	pool   *pgxpool.Pool // every round trip is a step
	table  *pgxfence.Table
	row    *pgxfence.Row
	other  *process // on the same server
}

var (
	started *process
	begin   = sync.OnceValues(func() (*process, error) {
		s, err := servers.Postgres()
		if err != nil {
			return nil, err
		}
		p := &process{server: s, rows: new(atomic.Int64)}
		started, p.other = p, &process{server: s, rows: p.rows}
		if err := errors.Join(p.open(), p.other.open()); err != nil {
			return nil, err
		}
		for _, statement := range []string{p.table.Schema(), p.table.Schema(),
			"CREATE TABLE guarded (id bigint PRIMARY KEY, v text NOT NULL, fence bigint, holder text)"} {
			if _, err := p.pool.Exec(context.Background(), statement); err != nil {
				return nil, err
			}
		}
		return p, nil
	})
)

func TestMain(m *testing.M) {
	code := m.Run()
	if started != nil {
		for _, p := range []*process{started, started.other} {
			if p.pool != nil {
				p.pool.Close()
			}
		}
		started.server.Stop()
	}
	os.Exit(code)
}

// need returns a process with a running server, or skips the test if it is not installed.
func need(t *testing.T) *process {
	t.Helper()
	p, err := begin()
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	return p
}

func (p *process) url() string {
	return "postgres://postgres@" + p.server.Addr + "/postgres?sslmode=disable"
}

// open makes the pool and the guards. In this mode a statement is one round trip.
func (p *process) open() error {
	cfg, err := pgxpool.ParseConfig(p.url() + "&default_query_exec_mode=exec")
	if err != nil {
		return err
	}
	cfg.ConnConfig.Tracer = steps{}
	p.pool, err = pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	p.table, err = pgxfence.NewTable(nil)
	if err != nil {
		return err
	}
	p.row, err = pgxfence.NewRow(&pgxfence.RowOptions{Table: "guarded", Key: "id", Holder: "holder"})
	return err
}

// lossy calls f with a connection that loses a reply when the dialer is set to.
func (p *process) lossy(ctx context.Context, f func(conn *pgx.Conn, d *fencetest.Dialer) error) error {
	cfg, err := pgx.ParseConfig(p.url() + "&default_query_exec_mode=exec")
	if err != nil {
		return err
	}
	d := &fencetest.Dialer{}
	cfg.DialFunc = d.DialContext
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return f(conn, d)
}

// insert makes a fresh row and returns its key.
func (p *process) insert(ctx context.Context) (int64, error) {
	id := p.rows.Add(1)
	_, err := p.pool.Exec(ctx, "INSERT INTO guarded (id, v) VALUES ($1, '')", id)
	return id, err
}

// get and set are what a program does without a guard.
const (
	getSQL = "SELECT v FROM guarded WHERE id = $1"
	setSQL = "UPDATE guarded SET v = $1 WHERE id = $2"
)

func get(ctx context.Context, q pgxfence.Querier, id int64) (v string, err error) {
	err = q.QueryRow(ctx, getSQL, id).Scan(&v)
	return v, err
}

func set(ctx context.Context, q pgxfence.Querier, id int64, v string) error {
	_, err := q.Exec(ctx, setSQL, v, id)
	return err
}

// byTable is a row behind a table of fences.
func (p *process) byTable(id int64, lock string) *fencetest.Value {
	return &fencetest.Value{
		Enter: func(ctx context.Context) (v string, err error) {
			err = p.table.Do(ctx, p.pool, lock, func(ctx context.Context, tx pgx.Tx) error {
				v, err = get(ctx, tx, id)
				return err
			})
			return v, err
		},
		Write: func(ctx context.Context, v string) error {
			return p.table.Do(ctx, p.pool, lock, func(ctx context.Context, tx pgx.Tx) error { return set(ctx, tx, id, v) })
		},
		LoseReply: func(ctx context.Context, v string) error { // the reply to COMMIT
			return p.lossy(ctx, func(conn *pgx.Conn, d *fencetest.Dialer) error {
				return p.table.Do(ctx, conn, lock, func(ctx context.Context, tx pgx.Tx) error {
					defer d.LoseNextReply(ctx)
					return set(ctx, tx, id, v)
				})
			})
		},
	}
}

// byBatch is the same with batches.
func (p *process) byBatch(id int64, lock string) *fencetest.Value {
	write := func(ctx context.Context, db pgxfence.Batcher, v string) error {
		b := &pgx.Batch{}
		b.Queue(setSQL, v, id)
		return p.table.SendBatch(ctx, db, lock, b).Close()
	}
	return &fencetest.Value{
		Enter: func(ctx context.Context) (v string, err error) {
			b := &pgx.Batch{}
			b.Queue(getSQL, id).QueryRow(func(row pgx.Row) error { return row.Scan(&v) })
			return v, p.table.SendBatch(ctx, p.pool, lock, b).Close()
		},
		Write: func(ctx context.Context, v string) error { return write(ctx, p.pool, v) },
		LoseReply: func(ctx context.Context, v string) error {
			return p.lossy(ctx, func(conn *pgx.Conn, d *fencetest.Dialer) error {
				d.LoseNextReply(ctx)
				return write(ctx, conn, v)
			})
		},
	}
}

// byRow is a value in a row with its own fence.
func (p *process) byRow(id int64, lock string) *fencetest.Value {
	return &fencetest.Value{
		Enter: func(ctx context.Context) (string, error) {
			if err := p.row.Raise(ctx, p.pool, lock, id); err != nil {
				return "", err
			}
			return get(ctx, p.pool, id)
		},
		Write: func(ctx context.Context, v string) error { return p.row.Update(ctx, p.pool, lock, id, "v = $1", v) },
		LoseReply: func(ctx context.Context, v string) error {
			return p.lossy(ctx, func(conn *pgx.Conn, d *fencetest.Dialer) error {
				d.LoseNextReply(ctx)
				return p.row.Update(ctx, conn, lock, id, "v = $1", v)
			})
		},
	}
}

// harness makes values, each in a fresh row.
func (p *process) harness(name string, value func(p *process, id int64, lock string) *fencetest.Value) *fencetest.Harness {
	open := func(p *process, id int64, lock string) *fencetest.Value {
		v := value(p, id, lock)
		v.Read = func(ctx context.Context) (string, error) { return get(ctx, p.pool, id) }
		return v
	}
	return &fencetest.Harness{Name: name + " with pgx",
		New: func(ctx context.Context, lock string) (*fencetest.Value, error) {
			id, err := p.insert(ctx)
			if err != nil {
				return nil, err
			}
			v := open(p, id, lock)
			v.Reopen = func(context.Context) (*fencetest.Value, error) { return open(p.other, id, lock), nil }
			return v, nil
		},
		Restart: func(ctx context.Context) error {
			if err := p.server.Restart(); err != nil {
				return err
			}
			p.pool.Reset() // the old connections are dead
			p.other.pool.Reset()
			return errors.Join(p.pool.Ping(ctx), p.other.pool.Ping(ctx))
		},
	}
}

func TestTableGuard(t *testing.T) {
	fencetest.Run(t, need(t).harness("fence table", (*process).byTable))
}

func TestBatchGuard(t *testing.T) {
	fencetest.Run(t, need(t).harness("fence in a batch", (*process).byBatch))
}

func TestRowGuard(t *testing.T) { fencetest.Run(t, need(t).harness("fence column", (*process).byRow)) }

// TestAddedStatements compares reading and writing with the same under each guard.
func TestAddedStatements(t *testing.T) {
	p := need(t)
	id, err := p.insert(t.Context())
	must.OK(t, err)
	const lock = "added"
	count := func(f func(ctx context.Context) error) int {
		t.Helper()
		n, err := fencetest.Trips(fence.With(t.Context(), fence.Mark{Lock: lock, Token: 512}), f)
		must.OK(t, err)
		return n
	}
	work := func(ctx context.Context, tx pgx.Tx) error {
		v, err := get(ctx, tx, id)
		return errors.Join(err, set(ctx, tx, id, v+"x"))
	}
	batch := func() *pgx.Batch {
		b := &pgx.Batch{}
		b.Queue(getSQL, id)
		b.Queue(setSQL, "x", id)
		return b
	}
	for _, tt := range []struct {
		guard         string
		with, without int
		want          int
	}{
		{"fence table", count(func(ctx context.Context) error { return p.table.Do(ctx, p.pool, lock, work) }),
			count(func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return work(ctx, tx) })
			}), 1},
		{"fence in a batch", count(func(ctx context.Context) error { return p.table.SendBatch(ctx, p.pool, lock, batch()).Close() }),
			count(func(ctx context.Context) error { return p.pool.SendBatch(ctx, batch()).Close() }), 0},
		{"fence column", count(func(ctx context.Context) error {
			return errors.Join(p.row.Raise(ctx, p.pool, lock, id), p.row.Update(ctx, p.pool, lock, id, "v = $1", "x"))
		}), count(func(ctx context.Context) error { return set(ctx, p.pool, id, "x") }), 1},
	} {
		t.Logf("fencetest: %s with pgx adds %d round trips", tt.guard, tt.with-tt.without)
		if tt.with-tt.without != tt.want || tt.without == 0 {
			t.Errorf("%s: %d round trips, without a guard %d, want %d more", tt.guard, tt.with, tt.without, tt.want)
		}
	}
}

func holding(t *testing.T, lock string, token int64, holder string) context.Context {
	return fence.With(t.Context(), fence.Mark{Lock: lock, Token: fencelock.Token(token), Holder: holder})
}
