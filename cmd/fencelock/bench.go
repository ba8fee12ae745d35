// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/spf13/cobra"
)

// benchNamespace keeps a load away from the locks of an application.
const benchNamespace = "fencelock-bench"

func (a *app) benchCommand() *cobra.Command {
	b := &bench{app: a}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put a short load on the store and measure it",
		Long: `Put a short load on the store, from this machine, and print what it could do:

  own locks    all workers at once acquire and release, each its own lock
  one lock     two clients, as if on two machines, acquire one lock alternately:
               how long from the release to the other client's acquisition

Other programs may use the same server and notice the load. The locks are in a
separate namespace (` + benchNamespace + `, or --namespace). The numbers are valid for this
machine, this network and this moment; do not compare them with others.`,
		Example: `  fencelock bench --for 5s --workers 64`,
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return b.main(cmd.Context()) },
	}
	cmd.Flags().DurationVar(&b.length, "for", 2*time.Second, "how long each of the two takes")
	cmd.Flags().IntVar(&b.workers, "workers", 16, "how many work at once")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

type bench struct {
	*app
	length  time.Duration
	workers int
}

// measurement is one part of a bench.
type measurement struct {
	Part      string  `json:"part"`
	Count     int     `json:"count"`
	PerSecond float64 `json:"per_second"`
	MedianMS  float64 `json:"median_ms"`
	P99MS     float64 `json:"p99_ms"`
	MostMS    float64 `json:"most_ms"`
}

func (b *bench) main(parent context.Context) error {
	if b.length <= 0 || b.workers < 1 {
		return usage("--for and --workers take positive values")
	}
	ctx, stop := untilSignal(parent)
	defer stop()
	clients, done, err := b.clients(ctx)
	if err != nil {
		return err
	}
	defer done()
	own, err := b.own(ctx, clients[0])
	if err != nil {
		return err
	}
	one, err := b.one(ctx, clients)
	if err != nil {
		return err
	}
	if b.format == "json" {
		return printJSON(b.out, []measurement{own, one})
	}
	t := b.newTable("PART", "COUNT", "PER SECOND", "MEDIAN", "99 %", "MOST")
	for _, m := range []measurement{own, one} {
		t.add(m.Part, fmt.Sprint(m.Count), fmt.Sprintf("%.0f", m.PerSecond), millis(m.MedianMS), millis(m.P99MS), millis(m.MostMS))
	}
	return t.write(b.out)
}

// clients connects two, as if on two machines, away from the locks of an application.
func (b *bench) clients(ctx context.Context) (clients [2]*fencelock.Client, done func(), err error) {
	if b.ns == "" {
		b.ns = benchNamespace
	}
	var opened []*connection
	done = func() {
		for _, c := range opened {
			b.close(c)
		}
	}
	for i := range clients {
		c, err := b.connect(ctx, &fencelock.Options{LocalHandoff: -1})
		if err != nil {
			done()
			return clients, nil, err
		}
		opened = append(opened, c)
		clients[i] = c.client
	}
	return clients, done, nil
}

func millis(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }

// own is locking and unlocking without contention.
func (b *bench) own(ctx context.Context, c *fencelock.Client) (measurement, error) {
	return b.load(ctx, fmt.Sprintf("own locks, %d workers, lock and unlock", b.workers), b.workers,
		func(ctx context.Context, worker int) (time.Duration, error) {
			began := time.Now()
			l, err := c.Mutex(fmt.Sprintf("own/%d", worker)).Lock(ctx)
			if err == nil {
				err = l.Unlock(context.WithoutCancel(ctx)) // the last one is measured, too
			}
			return time.Since(began), err
		})
}

// one is handing one lock to and fro. The time is from before the unlock to the
// other's return from Lock.
func (b *bench) one(ctx context.Context, clients [2]*fencelock.Client) (measurement, error) {
	var mu sync.Mutex
	var gave time.Time
	return b.load(ctx, "one lock, two clients, handoff", 2, func(ctx context.Context, worker int) (time.Duration, error) {
		l, err := clients[worker].Mutex("one").Lock(ctx)
		if err != nil {
			return 0, err
		}
		mu.Lock()
		var took time.Duration
		if !gave.IsZero() {
			took = time.Since(gave)
		}
		gave = time.Now()
		mu.Unlock()
		return took, l.Unlock(context.WithoutCancel(ctx))
	})
}

// load lets workers repeat something for a while and sums it up.
func (b *bench) load(parent context.Context, part string, workers int, once func(context.Context, int) (time.Duration, error)) (measurement, error) {
	ctx, cancel := context.WithTimeout(parent, b.length)
	defer cancel()
	took := make([][]time.Duration, workers)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				d, err := once(ctx, i)
				if err != nil {
					if ctx.Err() == nil {
						errs[i] = err
					}
					return
				}
				if d > 0 {
					took[i] = append(took[i], d)
				}
			}
		})
	}
	wg.Wait()
	spent := time.Since(began)
	if parent.Err() != nil {
		return measurement{}, context.Cause(parent)
	}
	for _, err := range errs {
		if err != nil {
			return measurement{}, err
		}
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return measurement{}, fmt.Errorf("%s: nothing was done in %v", part, b.length)
	}
	slices.Sort(all)
	at := func(q float64) float64 {
		return float64(all[min(int(q*float64(len(all))), len(all)-1)].Microseconds()) / 1000
	}
	return measurement{Part: part, Count: len(all), PerSecond: float64(len(all)) / spent.Seconds(), MedianMS: at(0.5), P99MS: at(0.99), MostMS: at(1)}, nil
}
