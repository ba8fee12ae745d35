// SPDX-License-Identifier: Apache-2.0

// Command lockpath shows how long the way of a lock through our code is: the functions and files that one uncontended
// Lock and Unlock run on Redis by go-redis, after everything is open. It builds itself with coverage, runs that
// against a server of its own, and prints the figures.
//
//	lockpath ── go build -cover ──▶ lockpath (child) ──▶ redis-server
//	    ◀───────── counters ────────────┘
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/redis/go-redis/v9"
)

var (
	addr = flag.String("addr", "", "of the server; set for the child")
	what = flag.String("what", "", "lock or both; set for the child")
	dir  = flag.String("counters", "", "where to write them; set for the child")
	show = flag.Bool("show", false, "show the functions")
)

func main() {
	flag.Parse()
	run := parent
	if *addr != "" {
		run = child
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lockpath:", err)
		os.Exit(1)
	}
}

// child locks and unlocks, and writes the counters of what ran.
func child() (err error) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: *addr, ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(client, nil)
	if err != nil {
		return err
	}
	locks, err := fencelock.New(store, &fencelock.Options{TTL: time.Minute})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close(ctx)) }()
	mutex := locks.Mutex("orders/42")
	for range 20 { // until the scripts are loaded, and plain commands are used
		lease, err := mutex.Lock(ctx)
		if err != nil {
			return err
		}
		if err := lease.Unlock(ctx); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	lease, err := mutex.Lock(ctx)
	if err != nil {
		return err
	}
	if *what == "both" {
		err = lease.Unlock(ctx)
	}
	return errors.Join(err, coverage.WriteMetaDir(*dir), coverage.WriteCountersDir(*dir))
}

func parent() error {
	dir, err := os.MkdirTemp("", "lockpath")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "lockpath")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/fencelock/fencelock/...", "-o", program, "./lab/lockpath")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	server, err := servers.Redis.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	for _, what := range []string{"lock", "both"} {
		functions, files, err := walk(program, server.Addr, dir, what)
		if err != nil {
			return err
		}
		if *show {
			fmt.Println(what + ":\n  " + strings.Join(functions, "\n  "))
		}
		if what == "lock" {
			figure.Print("house-redis-lock-functions", len(functions), figure.AtMost(30))
			figure.Print("house-redis-lock-files", len(files), figure.AtMost(14))
		} else {
			figure.Print("house-redis-lock-path-files", len(files), figure.AtMost(14))
		}
	}
	return nil
}

// walk returns the functions that ran, and their files.
func walk(program, addr, dir, what string) (functions, files []string, err error) {
	counters, profile := filepath.Join(dir, what), filepath.Join(dir, what+".txt")
	if err := os.Mkdir(counters, 0o755); err != nil {
		return nil, nil, err
	}
	run := exec.Command(program, "-addr", addr, "-what", what, "-counters", counters)
	run.Env = append(os.Environ(), "GOCOVERDIR="+dir) // what a program writes at its end, which is not wanted
	if out, err := run.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%w: %s", err, out)
	}
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile).CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%w: %s", err, out)
	}
	out, err := exec.Command("go", "tool", "cover", "-func="+profile).Output()
	if err != nil {
		return nil, nil, err
	}
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Fields(line) // file:line: function percent
		if len(f) != 3 || f[2] == "0.0%" || f[0] == "total:" || strings.Contains(f[0], "lab/lockpath") {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimPrefix(f[0], "github.com/fencelock/fencelock/"), ":")
		functions = append(functions, file+" "+f[1])
		files = append(files, file)
	}
	slices.SortFunc(functions, cmp.Compare[string])
	slices.Sort(files)
	return functions, slices.Compact(files), nil
}
