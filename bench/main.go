// SPDX-License-Identifier: Apache-2.0

// Command bench measures the bare engine, the lock libraries of others and ours,
// side by side in one run.
//
//	go run ./bench -figures redis   # what is promised of redisstore, in a minute
//	go run ./bench -hold 1000000    # a million leases held on one server
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/suite"
	"github.com/fencelock/fencelock/bench/internal/worker"
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
	figures := flag.String("figures", "", "print the figures of a store: redis")
	hold := flag.Int("hold", 0, "hold so many leases on one server for half a minute")
	flag.Parse()
	began := time.Now()
	e := &suite.Env{Progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
	switch {
	case *figures == "redis":
		return figuresRedis(ctx, e)
	case *figures != "":
		return fmt.Errorf("-figures %s: there is redis", *figures)
	case *hold > 0:
		return holdMany(ctx, *hold)
	}
	flag.Usage()
	return errors.New("say what to measure")
}

// holdMany reports what so many leases cost.
func holdMany(ctx context.Context, n int) error {
	holding, err := suite.Hold(ctx, candidate.FencelockRueidis, n)
	if err != nil {
		return err
	}
	defer holding.Stop()
	held, err := holding.Finish(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	fmt.Println(held)
	return nil
}
