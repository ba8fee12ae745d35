// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/sqlstore"
)

// place is where it is measured: one server, and what is connected to it.
type place struct {
	engine engine
	port   int
	opened []func()
}

func (p *place) close() {
	for _, f := range slices.Backward(p.opened) {
		f()
	}
	p.opened = nil
}

func (p *place) db() (*sql.DB, error) {
	db, err := sql.Open(p.engine.driver, p.engine.source(p.port))
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(workers + 4)
	p.opened = append(p.opened, func() { db.Close() })
	return db, nil
}

// process returns a client that shares nothing with the others, and what counts its
// keep-alives.
func (p *place) process(ctx context.Context, ttl time.Duration) (*fencelock.Client, *counting, error) {
	db, err := p.db()
	if err != nil {
		return nil, nil, err
	}
	if err := sqlstore.Migrate(ctx, db, nil); err != nil {
		return nil, nil, err
	}
	store, err := sqlstore.New(db, nil)
	if err != nil {
		return nil, nil, err
	}
	c := &counting{Store: store}
	client, err := fencelock.New(c, &fencelock.Options{TTL: ttl})
	if err != nil {
		return nil, nil, err
	}
	p.opened = append(p.opened, func() { _ = client.Close(context.Background()); store.Close() })
	return client, c, nil
}

// counting counts the keep-alives of a store.
type counting struct {
	driver.Store
	n atomic.Int64
}

type countingSession struct {
	driver.Session
	c *counting
}

// Open implements driver.Store.
func (c *counting) Open(ctx context.Context, r driver.OpenRequest) (driver.Session, driver.Life, error) {
	s, l, err := c.Store.Open(ctx, r)
	return countingSession{s, c}, l, err
}

// KeepAlive implements driver.Session.
func (s countingSession) KeepAlive(ctx context.Context) (driver.Life, error) {
	s.c.n.Add(1)
	return s.Session.KeepAlive(ctx)
}

// keepAlives returns how many statements of ours the server does per keep-alive while a
// process holds many leases.
func (p *place) keepAlives(ctx context.Context, leases int) (float64, error) {
	defer p.close()
	client, counter, err := p.process(ctx, 3*time.Second)
	if err != nil {
		return 0, err
	}
	for i := range leases {
		if _, err := client.Mutex(fmt.Sprint("lease/", i)).Lock(ctx); err != nil {
			return 0, err
		}
	}
	db, err := p.db()
	if err != nil {
		return 0, err
	}
	// From just after a keep-alive to just after another, ten times as many.
	wait := func(n int64) error {
		for end := time.Now().Add(time.Minute); counter.n.Load() < n; rest(ctx, 50*time.Millisecond) {
			if time.Now().After(end) {
				return errors.New("no keep-alives")
			}
		}
		rest(ctx, 100*time.Millisecond)
		return ctx.Err()
	}
	first := counter.n.Load() + 1
	if err := wait(first); err != nil {
		return 0, err
	}
	before, err := p.engine.statements(db)
	if err != nil {
		return 0, err
	}
	if err := wait(first + 10); err != nil {
		return 0, err
	}
	after, err := p.engine.statements(db)
	calls := counter.n.Load() - first
	if p.engine.short == "mariadb" {
		after-- // the count itself
	}
	return float64(after-before) / float64(calls), err
}

// contended returns how many turns our lock makes for each of the native one, with
// sections of 1 ms.
func (p *place) contended(ctx context.Context, processes int) (float64, error) {
	defer p.close()
	var clients []*fencelock.Client
	for range processes {
		c, _, err := p.process(ctx, 15*time.Second)
		if err != nil {
			return 0, err
		}
		clients = append(clients, c)
	}
	db, err := p.db()
	if err != nil {
		return 0, err
	}
	var conns []*held
	for range workers {
		h, err := p.engine.native.on(ctx, db)
		if err != nil {
			return 0, err
		}
		conns = append(conns, h)
		p.opened = append(p.opened, func() { h.conn.Close() })
	}
	section := func() { rest(ctx, time.Millisecond) }
	ours := func(ctx context.Context, i int) error {
		return clients[i%len(clients)].Do(ctx, "turn", func(context.Context, *fencelock.Lease) error { section(); return nil })
	}
	native := func(ctx context.Context, i int) error { return conns[i].turn(ctx, "turn", section) }
	return compare(ctx, fmt.Sprintf("%s contended, %d workers in %d processes", p.engine.short, workers, processes), workers, ours, native)
}

// uncontended is the same for one worker that is alone.
func (p *place) uncontended(ctx context.Context) (float64, error) {
	defer p.close()
	client, _, err := p.process(ctx, 15*time.Second)
	if err != nil {
		return 0, err
	}
	db, err := p.db()
	if err != nil {
		return 0, err
	}
	h, err := p.engine.native.on(ctx, db)
	if err != nil {
		return 0, err
	}
	defer h.conn.Close()
	ours := func(ctx context.Context, _ int) error {
		return client.Do(ctx, "alone", func(context.Context, *fencelock.Lease) error { return nil })
	}
	native := func(ctx context.Context, _ int) error { return h.turn(ctx, "alone", func() {}) }
	return compare(ctx, p.engine.short+" uncontended", 1, ours, native)
}

// rest waits, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// commits returns how many locks and unlocks we do for each two bare commits of one row,
// which is what a durable token costs at the least.
func (p *place) commits(ctx context.Context) (float64, error) {
	defer p.close()
	client, _, err := p.process(ctx, 15*time.Second)
	if err != nil {
		return 0, err
	}
	db, err := p.db()
	if err != nil {
		return 0, err
	}
	for _, text := range []string{"CREATE TABLE bare (n bigint)", "INSERT INTO bare VALUES (0)"} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return 0, err
		}
	}
	update, err := db.PrepareContext(ctx, "UPDATE bare SET n = n + 1")
	if err != nil {
		return 0, err
	}
	ours := func(ctx context.Context, _ int) error {
		return client.Do(ctx, "alone", func(context.Context, *fencelock.Lease) error { return nil })
	}
	twice := func(ctx context.Context, _ int) error {
		for range 2 {
			if _, err := update.ExecContext(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return compare(ctx, p.engine.short+" beside two bare commits", 1, ours, twice)
}

// compare lets both work in turn and returns the ratio of their medians.
func compare(ctx context.Context, what string, workers int, ours, native func(context.Context, int) error) (float64, error) {
	var a, b []float64
	for range rounds {
		n, err := turns(ctx, workers, ours)
		if err != nil {
			return 0, err
		}
		m, err := turns(ctx, workers, native)
		if err != nil {
			return 0, err
		}
		a, b = append(a, n), append(b, m)
	}
	slices.Sort(a)
	slices.Sort(b)
	fmt.Printf("%s: ours %.0f/s (%.0f to %.0f), other %.0f/s (%.0f to %.0f)\n", what,
		a[rounds/2], a[0], a[rounds-1], b[rounds/2], b[0], b[rounds-1])
	return a[rounds/2] / b[rounds/2], nil
}

// turns counts what workers do in a second.
func turns(ctx context.Context, workers int, turn func(context.Context, int) error) (float64, error) {
	var n atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	began := time.Now()
	for i := range workers {
		wg.Go(func() {
			for !stop.Load() {
				if err := turn(ctx, i); err != nil {
					errs <- err
					return
				}
				n.Add(1)
			}
		})
	}
	rest(ctx, each)
	done, took := n.Load(), time.Since(began)
	stop.Store(true)
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(done) / took.Seconds(), nil
	}
}
