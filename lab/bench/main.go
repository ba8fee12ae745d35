// SPDX-License-Identifier: Apache-2.0

// Command bench measures the bare server, the lock libraries of others and ours,
// side by side in one run, on servers that it starts and stops. It also prints every
// figure that the documents promise.
//
//	go run ./lab/bench -figures core                    # what the documents claim without a server
//	go run ./lab/bench -figures fence                   # the guards, proved on real servers
//	go run ./lab/bench -figures redis                   # what is promised of redisstore, in a minute
//	go run ./lab/bench -figures redis-long              # with many waiters, locks and sessions: minutes, gigabytes
//	go run ./lab/bench -figures redis -only redis-fleet # the figures whose names begin so
//	go run ./lab/bench -figures redis-long -scale 0.01  # a short try of the large ones
//	go run ./lab/bench -figures etcd                    # etcdstore beside etcd's own lock; zk and sql alike
//	go run ./lab/bench -figures sql-crowd               # sessions that want one lock in a database, a part of sql
//	go run ./lab/bench -figures sql-crowd -only pg      # the same on PostgreSQL
//	go run ./lab/bench -figures linger                  # locks that linger on Redis, and the notices that end it
//	go run ./lab/bench -quick                           # counts and processor time on Redis, with floors
//	go run ./lab/bench -units                           # what one of each costs every server, for lab/results/scale.md
//	go run ./lab/bench -growth                          # how costs grow on Redis, for lab/results/scale.md
//	go run ./lab/bench -page                            # the tables and pictures of lab/results/scale.md, from what is kept
//	go run ./lab/bench -figures scale                   # what lab/results/scale.md claims of growth, from what is kept
//	go run ./lab/bench -suite redis                     # everything, into lab/results/benchmarks; takes half an hour
//	go run ./lab/bench -suite redis -only holding,idle  # some parts, to the terminal
//	go run ./lab/bench -suite redis -only uncontended -pin
//	go run ./lab/bench -redraw                          # the charts again, from stored results
//
// Where to look:
//
//	internal/candidate   what is compared, one file each
//	internal/suite       what is measured, one file each
//	internal/target      servers: started, asked, stopped
//	internal/worker      the work, in this process or in many
//	internal/report      table, page, JSON
//	internal/picture     charts
//	figures*.go          the numbers that the documents promise; readings.go reads them from cells
//	floors.txt           what they must not fall below
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/child"
	"github.com/fencelock/fencelock/lab/bench/internal/report"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) == 2 && os.Args[1] == worker.Flag {
		err = worker.Serve(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	figuresOf := flag.String("figures", "", "print figures: core, fence, redis, redis-long, linger, scale, etcd, zk or sql")
	quickly := flag.Bool("quick", false, "print the figures that have a floor, and fail if one is below it")
	p := plan{}
	flag.StringVar(&p.suite, "suite", "", "run a suite: redis, quorum, etcd, zk, postgres, mariadb, memcached")
	flag.StringVar(&p.only, "only", "", "run only these parts of the suite, or the figures whose names begin so (not of core, fence and scale); separated by commas")
	scale := flag.Float64("scale", 1, "measure the figures of many locks, sessions and readers with so many times as many, for a short try")
	flag.StringVar(&p.out, "out", "", "folder to write to; lab/results/benchmarks for a whole suite, nothing is written with -only")
	flag.IntVar(&p.repetitions, "repetitions", 3, "how often each candidate runs")
	flag.DurationVar(&p.each, "for", 2*time.Second, "how long each time; some parts take half of it")
	units := flag.Bool("units", false, "measure what one lock, handoff, keep-alive and session cost each server, and write lab/results/scale/units.json; with -only these servers")
	growth := flag.Bool("growth", false, "measure how costs on Redis grow with locks, sessions, waiters and readers, for lab/results/scale.md; with -only some, such as waiters")
	page := flag.Bool("page", false, "write the tables and pictures of lab/results/scale.md from what is kept; measures nothing")
	again := flag.Bool("redraw", false, "draw the charts of lab/results/benchmarks again from the stored results.json; measures nothing")
	pin := flag.Bool("pin", false, "give the server one processor and the clients another; redis, quorum, etcd, memcached only")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process to this file; read it with go tool pprof")
	flag.Parse()
	if *pin && !child.Pinned() {
		return child.Pin()
	}
	stop, err := profiled(*profile)
	if err != nil {
		return err
	}
	defer stop()
	began := time.Now()
	e := &suite.Env{Scale: *scale, Progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
	lasting := e.Lasting(p.repetitions, p.each)
	switch {
	case *figuresOf != "":
		return figures(ctx, e, *figuresOf, parseSelection(p.only))
	case *quickly:
		return quick(ctx, e)
	case *units:
		return writeUnits(ctx, lasting, parseSelection(p.only))
	case *growth:
		return writeGrowth(ctx, lasting, parseSelection(p.only))
	case *page:
		return writePage()
	case *again:
		return redraw(filepath.Join("lab", "results", "benchmarks"))
	case p.suite != "":
		return p.run(ctx, e)
	}
	flag.Usage()
	return errors.New("one of -figures, -quick, -units, -growth, -page, -suite and -redraw is needed")
}

// profiled begins to write a profile, if a file is given.
func profiled(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// origin is where results that are kept in the repository come from.
type origin struct {
	Command string
	Machine report.Machine
}

func thisOrigin() origin {
	o := origin{"go run ./lab/bench " + strings.Join(os.Args[1:], " "), report.ThisMachine()}
	o.Machine.Modules = nil // go.mod has them
	return o
}

// readKept reads results that were written before, if any.
func readKept(file string, into any) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; remove it to begin again", file, err)
	}
	return nil
}

func writeKept(file string, results any) error {
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
