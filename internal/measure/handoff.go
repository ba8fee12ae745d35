// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// Handed is the speed of the handoff of a lock inside one process, beside that of a
// channel used as a mutex, which serves goroutines in the order of asking as well.
type Handed struct {
	Goroutines int
	// Ours and Channel are handoffs per second, medians.
	Ours, Channel float64
	// Ratio is the median of ours/channel over the repetitions.
	Ratio float64
}

// String is one line for people and programs.
func (h Handed) String() string {
	return fmt.Sprintf("goroutines %d handoffs/s %.0f channel/s %.0f ratio %.2f", h.Goroutines, h.Ours, h.Channel, h.Ratio)
}

// Handoff lets so many goroutines contend for one name, each repetition for
// the given time: once through a client with default options on a memory store,
// once through a channel.
func Handoff(ctx context.Context, goroutines, repetitions int, each time.Duration) (Handed, error) {
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		return Handed{}, err
	}
	mu := c.Mutex("x")
	var failed atomic.Pointer[error]
	ours := func() {
		l, err := mu.Lock(ctx)
		if err == nil {
			err = l.Unlock(ctx)
		}
		if err != nil {
			failed.Store(&err)
		}
	}
	ch := make(chan struct{}, 1)
	channel := func() {
		ch <- struct{}{}
		<-ch
	}
	var a, b, ratios []float64
	for i := range repetitions + 1 {
		x, y := rate(ctx, goroutines, each, ours), rate(ctx, goroutines, each, channel)
		if i > 0 { // the first only warms up
			a, b, ratios = append(a, x), append(b, y), append(ratios, x/y)
		}
	}
	if p := failed.Load(); p != nil {
		err = *p
	}
	if cerr := c.Close(ctx); err == nil {
		err = cerr
	}
	return Handed{Goroutines: goroutines, Ours: median(a), Channel: median(b), Ratio: median(ratios)}, err
}

// rate returns how often per second step is done by all together.
func rate(ctx context.Context, goroutines int, each time.Duration, step func()) float64 {
	var stop atomic.Bool
	var steps atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range goroutines {
		wg.Go(func() {
			n := int64(0)
			for ; !stop.Load(); n++ {
				step()
			}
			steps.Add(n)
		})
	}
	wait(ctx, each)
	stop.Store(true)
	wg.Wait()
	return float64(steps.Load()) / time.Since(began).Seconds()
}

// wait lets time pass, and reports whether ctx let it.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
