// SPDX-License-Identifier: Apache-2.0

// Command compare measures etcdstore beside etcd's own recipe,
// concurrency.Mutex, in one run on one server, and prints each result as
//
//	figure NAME VALUE GOAL
//
// It fails if one cannot be measured, not if one misses its goal. It starts the server
// itself.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fencelock/fencelock/etcdstore/internal/beats"
	"github.com/fencelock/fencelock/etcdstore/internal/etcdtest"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if _, err := etcdtest.Binary(); err != nil {
		return fmt.Errorf("etcd is not installed; on Debian: %s", etcdtest.Install)
	}
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cluster, err := etcdtest.Launch(dir, 1)
	if cluster != nil {
		defer cluster.Kill()
	}
	if err != nil {
		return err
	}
	figure := func(name string, value float64, goal string) { fmt.Printf("figure %s %.2f %s\n", name, value, goal) }
	alone, err := alternate(ctx, cluster, 1500)
	if err != nil {
		return err
	}
	fmt.Println("etcd: one session:", alone)
	figure("etcd-uncontended-vs-native", alone.ratio, ">=1")
	contended := 0.0
	for _, sessions := range []int{2, 8} {
		r, err := race(ctx, cluster, sessions, 3, time.Second)
		if err != nil {
			return err
		}
		fmt.Printf("etcd: %d sessions, one lock: %v\n", sessions, r)
		if contended == 0 || r.ratio < contended {
			contended = r.ratio
		}
	}
	figure("etcd-contended-vs-native", contended, ">=5")
	steps, err := watchSteps(ctx, cluster)
	if err != nil {
		return err
	}
	fmt.Println("etcd:", steps)
	renewals, err := beats.PerPeriod(ctx, cluster, 1000, 3)
	if err != nil {
		return err
	}
	figure("etcd-heartbeats-1000-leases", renewals, "=1")
	return nil
}
