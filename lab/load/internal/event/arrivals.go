// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// binWidth is how long a bin of the histogram is.
const binWidth = 100 * time.Millisecond

// maxBins is enough for ten minutes.
const maxBins = 6000

// arrivals counts the requests that a process sends, by the time at which it sends them.
type arrivals struct {
	began time.Time
	bins  [maxBins]atomic.Int64
}

func (a *arrivals) add() {
	if i := int(time.Since(a.began) / binWidth); i >= 0 && i < maxBins {
		a.bins[i].Add(1)
	}
}

// counts returns the bins so far. The first one begins at the first bin of the wall clock after the
// process began, so that those of several processes can be added up.
func (a *arrivals) counts() Histogram {
	n := min(maxBins, int(time.Since(a.began)/binWidth)+1)
	h := Histogram{Began: a.began.UnixMilli()}
	for i := range n {
		h.Bins = append(h.Bins, a.bins[i].Load())
	}
	return h
}

// DialHook implements redis.Hook.
func (a *arrivals) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		a.add()
		return next(ctx, network, addr)
	}
}

// ProcessHook implements redis.Hook.
func (a *arrivals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		a.add()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook. A pipeline is one request.
func (a *arrivals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		a.add()
		return next(ctx, cmds)
	}
}

// Histogram is how many requests there were in each bin since Began, in ms since 1970.
type Histogram struct {
	Began int64   `json:"began"`
	Bins  []int64 `json:"bins"`
}

// sum adds up histograms from a moment on, for as many bins as the duration has.
func sum(from time.Time, length time.Duration, all ...Histogram) Histogram {
	h := Histogram{Began: from.UnixMilli(), Bins: make([]int64, int(length/binWidth))}
	for _, one := range all {
		shift := int(math.Round(float64(one.Began-h.Began) / float64(binWidth.Milliseconds())))
		for i, n := range one.Bins {
			if at := i + shift; at >= 0 && at < len(h.Bins) {
				h.Bins[at] += n
			}
		}
	}
	return h
}

// mean is how many requests a bin has.
func (h Histogram) mean() float64 {
	var total int64
	for _, n := range h.Bins {
		total += n
	}
	return float64(total) / float64(max(1, len(h.Bins)))
}

// peakVsMean is how much more requests there are in the fullest bin than in a mean one.
func (h Histogram) peakVsMean() float64 {
	if h.mean() == 0 {
		return 0
	}
	return float64(slices.Max(h.Bins)) / h.mean()
}
