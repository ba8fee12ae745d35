// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/scale"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// growthPath is where the growth curves are kept.
var growthPath = filepath.Join("docs", "scale", "growth.json")

// growthFile is what is written.
type growthFile struct{ Curves []*keptCurve }

// keptCurve is a curve and where it comes from: each may be measured again without the others.
type keptCurve struct {
	origin
	scale.Curve
}

// curves are those of all origins.
func (f *growthFile) curves() (all []*scale.Curve) {
	for _, c := range f.Curves {
		all = append(all, &c.Curve)
	}
	return all
}

// growing is a curve to measure.
type growing struct {
	scale.Curve
	sizes   []int
	label   func(n int) string
	measure func(ctx context.Context, e *suite.Env, sizes []int) (suite.Cells, error)
}

var decades = []int{10, 100, 1000, 10_000}

// growths are all curves. Those of Redis are long; the others show that the same holds there.
func growths() []growing {
	all := []growing{
		{scale.Curve{Name: scale.HeldLocks, Server: "redis"}, []int{1000, 10_000, 100_000, 1_000_000, 10_000_000}, suite.Names,
			func(ctx context.Context, e *suite.Env, sizes []int) (suite.Cells, error) {
				return e.GrowHeld(ctx, []*candidate.Candidate{candidate.FencelockRueidis, candidate.BareRueidis}, sizes)
			}},
		{scale.Curve{Name: scale.Sessions, Server: "redis"}, decades, suite.Sessions,
			func(ctx context.Context, e *suite.Env, sizes []int) (suite.Cells, error) {
				return e.GrowSessions(ctx, sizes)
			}},
		{scale.Curve{Name: scale.Readers, Server: "redis"}, append([]int{1}, decades...), suite.Readers,
			func(ctx context.Context, e *suite.Env, sizes []int) (suite.Cells, error) {
				return e.GrowReaders(ctx, sizes)
			}},
		waiting("redis", candidate.FencelockRueidis, []int{1, 10, 100, 1000}),
	}
	for _, s := range []struct {
		server string
		ours   *candidate.Candidate
	}{
		{"etcd", candidate.FencelockEtcd}, {"zk", candidate.FencelockZK}, {"postgres", candidate.FencelockPostgres},
		{"mariadb", candidate.FencelockMariaDB}, {"mysql", candidate.FencelockMySQL},
	} {
		all = append(all, growing{scale.Curve{Name: scale.HeldLocks, Server: s.server}, []int{100, 1000, 10_000}, suite.Names,
			func(ctx context.Context, e *suite.Env, sizes []int) (suite.Cells, error) {
				return e.GrowHeldThrough(ctx, s.ours, sizes)
			}}, waiting(s.server, s.ours, []int{1, 10, 100}))
	}
	return all
}

// waiting is the curve of waiters on one name: one more session holds the lock.
func waiting(server string, c *candidate.Candidate, sizes []int) growing {
	return growing{scale.Curve{Name: scale.Waiters, Server: server}, sizes, func(n int) string { return suite.Contending(n + 1) },
		func(ctx context.Context, e *suite.Env, sizes []int) (suite.Cells, error) {
			contending := make([]int, len(sizes))
			for i, n := range sizes {
				contending[i] = n + 1
			}
			return e.SessionCrowd(ctx, []*candidate.Candidate{c}, contending, time.Millisecond)
		}}
}

// writeGrowth measures the curves that are wanted, such as redis/held-locks, and writes them beside those of before.
func writeGrowth(ctx context.Context, e *suite.Env, only selection) error {
	var f growthFile
	if err := readKept(growthPath, &f); err != nil {
		return err
	}
	for _, g := range growths() {
		if !only.wants(g.Server + "/" + g.Name) {
			continue
		}
		curves, err := g.fill(ctx, e)
		if errors.Is(err, servers.ErrMissing) {
			e.Progress("%s: %v", g.Server, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s, %s: %w", g.Server, g.Name, err)
		}
		for _, c := range curves {
			f.put(c)
			fmt.Println(c)
		}
		if err := writeKept(growthPath, f); err != nil {
			return err
		}
	}
	return nil
}

// fill measures one curve, and that of each other candidate in its cells.
func (g *growing) fill(ctx context.Context, e *suite.Env) ([]*scale.Curve, error) {
	start, err := startOf(g.Server)
	if err != nil {
		return nil, err
	}
	there := *e
	there.Start = start
	there.Server, err = start(ctx)
	if err != nil {
		return nil, err
	}
	defer there.Server.Stop()
	sizes := g.sizes
	if e.Scale != 0 && e.Scale < 1 {
		sizes = sizes[:2]
	}
	cells, err := g.measure(ctx, &there, sizes)
	if err != nil {
		return nil, err
	}
	var curves []*scale.Curve
	for i, name := range cells.Candidates() {
		c := g.Curve
		if i > 0 {
			c.Server += ", " + name
		}
		for _, n := range sizes {
			c.Points = append(c.Points, scale.Point{N: n, Usec: cells.Of(g.label(n), name).Values(suite.ServerCPU)})
		}
		curves = append(curves, &c)
	}
	return curves, nil
}

// startOf returns how a server is started whose units are measured.
func startOf(name string) (func(context.Context) (target.Server, error), error) {
	for _, s := range unitServers {
		if s.name == name {
			return s.start, nil
		}
	}
	return nil, fmt.Errorf("unknown server %s", name)
}

// put replaces a curve that this run measured, or adds it.
func (f *growthFile) put(c *scale.Curve) {
	measured := &keptCurve{thisOrigin(), *c}
	for i, old := range f.Curves {
		if old.Name == c.Name && old.Server == c.Server {
			f.Curves[i] = measured
			return
		}
	}
	f.Curves = append(f.Curves, measured)
}
