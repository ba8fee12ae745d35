// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/internal/checkout"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/report"
)

// options are the flags.
type options struct {
	part, server, fault, plan, lock, out, write string
	seed                                        uint64
	rounds, least, long, locks, parallel        int
	smoke, lossy, linger                        bool
	budget                                      time.Duration
}

// parse reads the flags.
func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("torture", flag.ContinueOnError)
	fs.StringVar(&o.part, "part", "", "run one half of the matrix: redis, all that is made of Redis servers; or others")
	fs.StringVar(&o.server, "server", "", "run only these deployments of servers, separated by commas: redis, redis-grace, etcd, ...")
	fs.StringVar(&o.fault, "fault", "", "run only these faults, separated by commas")
	fs.StringVar(&o.plan, "plan", "", "run this plan of faults instead of one from a seed")
	fs.StringVar(&o.lock, "lock", "", "run this lock instead of ours: peer:rueidislock, peer:redsync, broken:NAME")
	fs.IntVar(&o.long, "long", 0, "one section in so many is longer than the TTL")
	fs.IntVar(&o.locks, "locks", 1, "how many locks the clients use")
	fs.StringVar(&o.out, "out", "", "folder for the report and the histories; a new temporary one by default")
	fs.StringVar(&o.write, "write", "", "file in which the matrix is kept up to date")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the first round")
	fs.IntVar(&o.rounds, "rounds", 1, "how often each cell is run, each time with the next seed")
	fs.BoolVar(&o.smoke, "smoke", false, "the cells of CI only")
	fs.BoolVar(&o.lossy, "lossy", false, "the rows of the second matrix: lost, reordered and delayed packets, drifting clocks, slow scripts, two servers at once")
	fs.BoolVar(&o.linger, "linger", false, "the rows of the third matrix: locks that linger, each used by one client mostly, whose holders give way")
	fs.IntVar(&o.least, "least", 1, "how many cells must have run, not counting those that do not apply")
	fs.IntVar(&o.parallel, "parallel", 1, "how many cells run side by side")
	fs.DurationVar(&o.budget, "budget", time.Hour, "cells that would start later than this, second tries included, are reported as not run; three times as long while fewer than -least have run")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.parallel < 1 || o.locks < 1 {
		return o, errors.New("-parallel and -locks must be at least 1")
	}
	if o.part != "" && o.part != "redis" && o.part != "others" {
		return o, fmt.Errorf("-part is redis or others, not %q", o.part)
	}
	if o.write != "" && o.part == "" && !o.lossy && !o.linger {
		return o, errors.New("-write of the matrix needs a -part: its halves are kept apart")
	}
	if o.write != "" && (o.server != "" && !o.lossy && !o.linger || o.fault != "" || o.plan != "" || o.lock != "" || o.smoke) {
		return o, errors.New("-write is for a whole matrix or -part: leave out -server, -fault, -plan, -lock and -smoke, or a part would replace the cells of all")
	}
	return o, nil
}

func torture(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	cells, err := matrix(o)
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out, err = os.MkdirTemp("", "torture-report")
		if err != nil {
			return err
		}
	}
	for i := range cells {
		cells[i].Lock, cells[i].Long, cells[i].Locks, cells[i].Linger = o.lock, o.long, o.locks, o.linger
		if o.lock != "" {
			cells[i].Deployment.Fair = false
		}
	}
	began := time.Now()
	s := &schedule{cells: cells, parallel: o.parallel, budget: o.budget, least: o.least, run: cell.Run, print: printLine}
	results := s.all(ctx)
	if err := save(o.out, results); err != nil {
		return err
	}
	if ctx.Err() == nil { // half a matrix does not replace a whole one
		from := report.Source{Command: strings.TrimSpace("go run ./lab/torture " + strings.Join(args, " ")), Seed: o.seed, When: began, Commit: checkout.Commit(".")}
		if err := rewrite(o.write, o.block(), report.Block(results, from)); err != nil {
			return err
		}
	}
	fmt.Print(report.Text(results))
	fmt.Printf("report: %s\n", filepath.Join(o.out, "index.html"))
	if err := ctx.Err(); err != nil {
		return err
	}
	return figures(results, o.least)
}

// block is where in a document the matrix is kept.
func (o options) block() string {
	if o.lossy {
		return "lossy"
	}
	if o.linger {
		return "linger"
	}
	return "matrix-" + o.part
}

// columns reports whether a deployment is among those that the flags ask for.
func (o options) columns(e deployment.Deployment) bool {
	half := "others"
	if slices.Contains(ofRedis, e.Name) {
		half = "redis"
	}
	return among(o.server, e.Name) && (o.part == "" || o.part == half)
}

// ofRedis are the deployments in the half of the matrix that is about Redis.
var ofRedis = []string{"redis", "redis-grace", "quorum-5", "sentinel", "sentinel-grace", "cluster", "cluster-grace"}

// rows reports whether a kind of fault is among those that the flags ask for, by name or
// by matrix.
func (o options) rows(k fault.Kind) bool {
	if o.linger && o.fault == "" {
		return k.Lingers || slices.Contains(lingering, k.Name)
	}
	return among(o.fault, k.Name) && (o.fault != "" || o.smoke || k.Lossy == o.lossy && !k.Lingers)
}

// lingering are the rows of the third matrix that others have, too: what happens to
// clients, to messages and to data. The other rows are about servers, to which a lock that
// lingers is a lock that is held.
var lingering = []string{"calm", "client-pause-short", "client-pause-long", "client-kill", "waiter-kill", "client-cut", "replies-lost",
	"requests-lost", "delay", "duplicates", "server-pause-long", "server-kill", "server-wipe", "flushall", "push-cut", "connections-cut", "failover", "mix"}

// figures prints what is wanted of a run, and is an error if it was missed.
func figures(results []cell.Result, least int) error {
	ran, failed := report.Tally(results)
	undecided, most := report.Undecided(results), mostUndecided(ran)
	figure.Print("torture-cells-failed", failed, figure.Exactly(0))
	figure.Print("torture-cells-run", ran, figure.AtLeast(float64(least)))
	figure.Print("torture-undecided", undecided, figure.AtMost(float64(most)))
	switch {
	case failed > 0:
		return fmt.Errorf("%d cells failed", failed)
	case ran < least:
		return fmt.Errorf("only %d cells could be run, %d are wanted; on a busy machine try again later", ran, least)
	case undecided > most:
		return fmt.Errorf("Porcupine had not enough time for %d of %d cells; on a busy machine try again later", undecided, ran)
	}
	return nil
}

// mostUndecided is for how many of ran cells Porcupine may have run out of time: a tenth,
// and one in a small run. With more of them the second check would mean nothing.
func mostUndecided(ran int) int { return max(1, ran/10) }

// matrix returns the cells that the flags ask for.
func matrix(o options) ([]cell.Cell, error) {
	var cells []cell.Cell
	if o.plan != "" {
		plan, err := fault.Parse(o.plan)
		if err != nil {
			return nil, err
		}
		e, ok := deployment.Named(o.server)
		if !ok {
			return nil, errors.New("-plan needs a -server")
		}
		return []cell.Cell{{Deployment: e, Fault: fault.Kind{Name: "plan", LosesData: true}, Plan: plan, Seed: o.seed}}, nil
	}
	for round := range o.rounds {
		for _, e := range deployment.All {
			for _, k := range fault.Kinds {
				if !o.columns(e) || !o.rows(k) {
					continue
				}
				if o.smoke && !smoke[e.Name+" "+k.Name] {
					continue
				}
				cells = append(cells, cell.Cell{Deployment: e, Fault: k, Seed: o.seed + uint64(round)})
			}
		}
	}
	if o.smoke { // those that are of one deployment each come first, if there is no time for all
		slices.SortStableFunc(cells, func(a, b cell.Cell) int { return cmp.Compare(plainRedis(a), plainRedis(b)) })
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("no cell matches -server %q -fault %q", o.server, o.fault)
	}
	return cells, nil
}

// plainRedis is 1 for a cell of a single Redis server, of which there are many.
func plainRedis(c cell.Cell) int {
	if c.Deployment.Name == "redis" {
		return 1
	}
	return 0
}

// among reports whether a list has a name; an empty one has all.
func among(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// smoke are the cells of CI: most faults once, and every deployment once, where it
// differs from the others.
var smoke = func() map[string]bool {
	cells := map[string]bool{
		"redis-grace server-wipe": true, "quorum-5 server-wipe": true, "sentinel-grace failover": true,
		"cluster slot-migration": true, "cluster-grace leader-cut-off": true, "etcd leader-cut-off": true,
		"zookeeper connections-cut": true, "postgres server-kill": true, "pgbouncer pooler-restart": true,
		"postgres-pair failover": true, "mariadb client-cut": true, "mysql client-cut": true, "memcached client-kill": true, "redis asymmetric-cut": true,
	}
	for _, f := range []string{"calm", "client-pause-long", "client-kill", "waiter-kill", "client-cut", "replies-lost", "duplicates", "server-pause-long",
		"server-kill", "flushall", "script-flush", "push-cut", "connections-cut", "memory-full", "disk-full", "pool-exhausted", "mix"} {
		cells["redis "+f] = true
	}
	return cells
}()
