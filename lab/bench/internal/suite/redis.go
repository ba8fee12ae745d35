// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// Redis is the suite of redisstore and of the libraries that lock with Redis.
var Redis = &Suite{
	Name: "redis", Start: target.StartRedis,
	Parts: []*Part{redisUncontended, redisRequests, redisFleet, redisLocal, redisProcesses, redisWaiters, redisIdle, redisHolding, redisNames, redisManyNames},
}

var redisUncontended = &Part{
	Name: "uncontended", Title: "Uncontended lock",
	Text: "Each goroutine of one process locks and unlocks its own name, with context.Background. The ratio is the rate divided by " +
		"that of SET NX PX and compare-and-delete through the same client.",
	Metrics: []string{Rate, P50, P99, Commands, Usec, CPU, Allocs},
	Ratio:   Rate, Chart: Chart{Metric: Rate, X: "goroutines"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Lasting(e.Repetitions, e.For/2).Uncontended(ctx, redisAlone, []int{1, 16, 64, 256, 1024})
	},
}

var redisRequests = &Part{
	Name: "requests", Title: "The same, with a context for each lock",
	Text: "As in a server, where each request has its own context with a deadline. Every candidate gets one, bare too. fencelock also bounds each call, " +
		"and can end it at any time, which costs a context or two more.",
	Metrics: []string{Rate, P50, P99, Commands, Usec, CPU, Allocs},
	Ratio:   Rate, Chart: Chart{Metric: Rate, X: "goroutines"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Lasting(e.Repetitions, e.For/2).Requests().Uncontended(ctx, redisAlone, []int{1, 16, 64})
	},
}

// redisAlone are the candidates for an uncontended lock.
var redisAlone = []*candidate.Candidate{
	candidate.BareRueidis, candidate.FencelockRueidis, candidate.RedsyncRueidis, candidate.RueidislockDefault, candidate.RueidislockFast,
	candidate.BareGoRedis, candidate.FencelockGoRedis, candidate.RedsyncGoRedis, candidate.Redislock,
}

// redisWaiting are the candidates that wait.
var redisWaiting = []*candidate.Candidate{
	candidate.FencelockRueidis, candidate.FencelockGoRedis, candidate.RueidislockDefault, candidate.RueidislockFast,
	candidate.RedsyncRueidis, candidate.RedsyncTuned, candidate.Redislock, candidate.RedislockTuned,
}

// redisJava need Maven and a Java runtime; without them their cells say so.
var redisJava = []*candidate.Candidate{candidate.Redisson, candidate.RedissonFair}

var redisFleet = &Part{
	Name: "fleet", Title: "Clients that each lock their own name",
	Text: "Each has its own connections and one goroutine, as a process has; with and without a pause after each unlock. The ratio is that of the " +
		"server's processor time, to SET NX PX and compare-and-delete through the same client.",
	Metrics: []string{ServerCPU, Rate, Commands, CPU, P50, P99},
	Ratio:   ServerCPU, Chart: Chart{Metric: ServerCPU, Bars: true},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return collect([]time.Duration{0, 20 * time.Millisecond}, func(pause time.Duration) (Cells, error) {
			return e.Lasting(e.Repetitions, e.For/2).Fleet(ctx, redisAlone, 64, pause)
		})
	},
}

var redisLocal = &Part{
	Name: "local", Title: "Contended lock, one process",
	Text:    "The ratio is the rate divided by that of a Go channel used as a lock, which excludes no other process. Jain is 1 if all goroutines had the same share.",
	Metrics: []string{Rate, P50, P99, Jain, Commands, CPU, Allocs},
	Ratio:   Rate, Bare: candidate.Channel.Name, Chart: Chart{Metric: Rate, Bars: true},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		all := append([]*candidate.Candidate{candidate.Channel}, redisWaiting...)
		return e.crowds(ctx, append(all, redisJava...), 1, []int{16, 64, 256})
	},
}

var redisProcesses = &Part{
	Name: "processes", Title: "Contended lock, several processes",
	Text: "One goroutine in each. Handoff is the time from one process's call of Unlock to another's return from Lock; the ratio is the median divided by " +
		"that of a message that goes around the same processes with PUBLISH. Cross share is the share of acquisitions that came from another process: " +
		"a library that takes its own lock again is fast and hands nothing over.",
	Metrics: []string{Handoff50, Handoff99, Rate, Cross, Jain, Overlaps, Commands, Usec, CPU},
	Ratio:   Handoff50, Bare: candidate.PingPong.Name, Chart: Chart{Metric: Handoff50, Bars: true},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return collect([]int{2, 8, 64}, func(n int) (Cells, error) {
			here, candidates := e, append([]*candidate.Candidate{candidate.PingPong}, redisWaiting...)
			if n < manyProcesses { // each of these takes the memory of ten others
				candidates = append(candidates, redisJava...)
			} else {
				here = e.AtLeast(time.Duration(n) * 20 * time.Millisecond)
			}
			return here.crowds(ctx, candidates, n, []int{1})
		})
	},
}

// crowds runs each candidate with so many processes and goroutines, with an empty
// section and one of a millisecond.
func (e *Env) crowds(ctx context.Context, candidates []*candidate.Candidate, processes int, goroutines []int) (Cells, error) {
	var f fleet
	defer f.stop()
	return collect(goroutines, func(g int) (Cells, error) {
		return collect([]time.Duration{0, time.Millisecond}, func(section time.Duration) (Cells, error) {
			var crowds []Crowd
			for _, c := range candidates {
				crowds = append(crowds, Crowd{c, processes, g, section})
			}
			return e.contend(ctx, crowds, &f)
		})
	})
}

var redisWaiters = &Part{
	Name: "waiters", Title: "Growing number of waiters",
	Text: "Each waiter has its own session or connection, as a process has; all are in one process, so that a thousand fit on the machine. " +
		"What counts is what the server does for one acquisition.",
	Metrics: []string{Commands, Usec, Rate, Jain, CPU},
	Chart:   Chart{Metric: Commands, X: "waiters"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return collect([]int{1, 2, 16, 200, 1000}, func(n int) (Cells, error) {
			return e.AtLeast(time.Duration(n)*2*time.Millisecond).GrowWaiters(ctx, []*candidate.Candidate{
				candidate.FencelockRueidis, candidate.FencelockGoRedis, candidate.RueidislockFast, candidate.RedsyncTuned,
			}, []int{n})
		})
	},
}

var redisIdle = &Part{
	Name: "idle", Title: "Thirty waiters for a held lock",
	Text:    "Commands in two seconds. Pings are those of the client library on connections that are silent.",
	Metrics: []string{Sent, Pings},
	Chart:   Chart{Metric: Sent, Bars: true},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.Idle(ctx, redisWaiting, 30)
	},
}

// holdFor is three renewals of a TTL of 15 s.
const holdFor = 16 * time.Second

var redisHolding = &Part{
	Name: "holding", Title: "Many locks held by one process",
	Text:    "The locks are held on a separate server for a while. redsync and redislock do not renew by themselves and are left out.",
	Metrics: []string{PerSecond, ServerCore, ServerBytes, ClientBytes, FillSeconds},
	Chart:   Chart{Metric: PerSecond, X: "locks held"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		var all Cells
		for _, h := range []struct {
			c *candidate.Candidate
			n int
		}{
			{candidate.FencelockRueidis, 10_000}, {candidate.FencelockRueidis, 100_000}, {candidate.FencelockRueidis, 1_000_000},
			{candidate.RueidislockDefault, 10_000}, {candidate.RueidislockFast, 10_000}, {candidate.RueidislockFast, 100_000},
		} {
			cell, err := e.alone(ctx, run{LocksHeld(h.n), h.c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
				cells, err := e.Holding(ctx, h.c, h.n, holdFor)
				if err != nil {
					return nil, err
				}
				return cells[0].Samples[0], nil
			}})
			if err != nil {
				return nil, err
			}
			all = append(all, cell)
		}
		return all, nil
	},
}

const namesText = "Sixteen clients lock and unlock names that were never used before, while another process holds so many others. " +
	"What is left behind is the growth of the server's memory in a repetition."

var namesMetrics = []string{Usec, Rate, P50, P99, LeftBytes}

var redisNames = &Part{
	Name: "names", Title: "Growing number of names",
	Text: namesText, Metrics: namesMetrics, Chart: Chart{Metric: Usec, X: "names held"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.GrowNames(ctx, []*candidate.Candidate{candidate.FencelockRueidis}, []int{1, 10_000, 1_000_000})
	},
}

// redisManyNames needs some gigabytes and minutes.
var redisManyNames = &Part{
	Name: "names-10m", Title: "Ten million names", Long: true,
	Text: namesText, Metrics: namesMetrics, Chart: Chart{Metric: Usec, X: "names held"},
	Run: func(ctx context.Context, e *Env) (Cells, error) {
		return e.GrowNames(ctx, []*candidate.Candidate{candidate.FencelockRueidis}, []int{1, 10_000_000})
	},
}
