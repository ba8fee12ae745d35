// SPDX-License-Identifier: Apache-2.0

// Command soak uses locks on real servers for a long time, under random faults, and finds
// out whether something grows: memory, goroutines, file descriptors, entries in the store.
//
//	soak -for 35m -parallel 4             every server, results into lab/torture/soak/results
//	soak -server redis-grace -for 3m -out /tmp/soak
//	soak kept lab/torture/soak/results   the figures of the results that are kept
//
// Each server has two client processes. One lives as long as the run and is measured; the other
// one is killed and replaced again and again. A run consists of rounds:
//
//	work under one fault ─▶ rest: no operation in progress ─▶ sample ─▶ work …
//
// Samples are taken at rest, so that they do not depend on what is in progress. After a
// warm-up, package stats fits a slope to each series of samples; a slope that is significantly above 0
// is a leak. At the end the clients are closed, and nothing of them may be left in the store or in
// their process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/deployment"
)

func main() {
	err := route(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// route finds out which of the processes this is.
func route(args []string) error {
	if len(args) > 0 && args[0] == "client" {
		return serve(os.Stdin, os.Stdout)
	}
	if len(args) > 0 && args[0] == "kept" {
		return kept(args[1:])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return soakAll(ctx, args)
}

// usual are the deployments that are run unless others are named.
const usual = "redis-grace,quorum-5,etcd,postgres,sentinel-grace,zookeeper,mariadb,memcached,cluster-grace"

func soakAll(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	server := fs.String("server", usual, "deployments of servers, separated by commas")
	length := fs.Duration("for", 35*time.Minute, "how long each of them is run")
	parallel := fs.Int("parallel", 2, "how many of them run side by side")
	seed := fs.Uint64("seed", 1, "seed of the faults and of the load")
	profiles := fs.String("profiles", "", "folder for profiles of the heap of the measured clients, to find out what grows")
	out := fs.String("out", filepath.Join("test", "torture", "soak", "results"), "folder for the results")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	slots := make(chan struct{}, max(1, *parallel))
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for _, name := range strings.Split(*server, ",") {
		d, ok := deployment.Named(name)
		if !ok {
			return fmt.Errorf("unknown deployment %q; the deployments are %s", name, strings.Join(names(), ", "))
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			err := soakOne(ctx, &soak{d: d, seed: *seed, length: *length, profiles: *profiles}, *out)
			if err != nil {
				mu.Lock()
				failed = append(failed, fmt.Errorf("%s: %w", d.Name, err))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// names are those of all deployments.
func names() (all []string) {
	for _, d := range deployment.All {
		all = append(all, d.Name)
	}
	slices.Sort(all)
	return all
}

// soakOne runs one deployment and writes its result.
func soakOne(ctx context.Context, s *soak, out string) error {
	r, err := s.run(ctx)
	if err != nil {
		return err
	}
	r.judge()
	fmt.Print(r)
	return errors.Join(r.write(out), r.verdict())
}
