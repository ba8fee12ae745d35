// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/redis/rueidis"
)

var quorumFigures = flag.Bool("quorum.figures", false, "measure the figures of the quorum (make figures-quorum)")

// figuresRig is a quorum whose sessions last longer than the measurement.
func figuresRig(t *testing.T) (*quorumRig, *quorumProcess) {
	q := newQuorumRig(t, redisstore.Options{})
	for _, r := range q.nodes {
		r.rueidis = true // the one that can prove a server's life, so scripts need not ask
	}
	return q, q.process(t, &fencelock.Options{TTL: time.Minute})
}

// scripts returns how many scripts a server has run.
func (r *quorumNode) scripts(t *testing.T) (n int) {
	t.Helper()
	text, _ := r.server.Do("INFO", "commandstats").Text()
	for _, line := range strings.Split(text, "\n") {
		if name, rest, ok := strings.Cut(line, ":calls="); ok && strings.Contains(name, "cmdstat_eval") {
			calls, _, _ := strings.Cut(rest, ",")
			k, err := strconv.Atoi(calls)
			must.OK(t, err)
			n += k
		}
	}
	return n
}

// TestQuorumRoundTrips: one to acquire and one to release, as the servers count.
func TestQuorumRoundTrips(t *testing.T) {
	const n = 50
	q, c := figuresRig(t)
	warm := q.lock(t, c, "warm") // opens the session
	calls := func() (all []int) {
		_ = c.store.Close() // a minority may still be on its way
		for _, r := range q.nodes {
			all = append(all, r.scripts(t))
		}
		return all
	}
	before := calls()
	var held []*fencelock.Lease
	for i := range n {
		held = append(held, q.lock(t, c, fmt.Sprint("trips/", i)))
	}
	acquired := calls()
	for _, l := range held {
		must.OK(t, l.Unlock(t.Context()))
	}
	released := calls()
	a, b := 0.0, 0.0
	for i := range before {
		a = max(a, float64(acquired[i]-before[i])/n)
		b = max(b, float64(released[i]-acquired[i])/n)
	}
	figure.Print("quorum-roundtrips-acquire", a, figure.AtMost(1))
	figure.Print("quorum-roundtrips-release", b, figure.AtMost(1))
	if a > 1 || b > 1 {
		t.Errorf("an acquisition took %v and a release %v calls of a node, want 1 each", a, b)
	}
	must.OK(t, warm.Unlock(t.Context()))
}

// TestQuorumFigures measures; it takes a while and wants the machine for itself.
func TestQuorumFigures(t *testing.T) {
	if !*quorumFigures {
		t.Skip("measures; run make figures-quorum")
	}
	t.Run("heap", func(t *testing.T) { heapOneNodeAway(t) })
	t.Run("bare", func(t *testing.T) { againstBare(t) })
	t.Run("stalled", func(t *testing.T) { stalled(t) })
}

// rate returns how often per second workers do a step in a time.
func rate(t *testing.T, workers int, each time.Duration, step func(worker int) error) float64 {
	var stop atomic.Bool
	var steps atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for i := range workers {
		wg.Go(func() {
			for !stop.Load() {
				if err := step(i); err != nil {
					t.Error(err)
					return
				}
				steps.Add(1)
			}
		})
	}
	time.AfterFunc(each, func() { stop.Store(true) })
	wg.Wait()
	return float64(steps.Load()) / time.Since(began).Seconds()
}

// cost is the processor time of one step, of the servers and of this process, added up
// over several measurements but for the first.
type cost struct {
	servers, client time.Duration
	measured        bool
}

// of measures steps whose rate f returns.
func (c *cost) of(q *quorumRig, f func() float64) float64 {
	servers, client, began := q.cpu(), ownCPU(), time.Now()
	rate := f()
	steps := rate * time.Since(began).Seconds()
	if c.measured {
		c.servers += time.Duration(float64(q.cpu()-servers) / steps)
		c.client += time.Duration(float64(ownCPU()-client) / steps)
	}
	c.measured = true
	return rate
}

// cpu is the processor time of all servers so far.
func (q *quorumRig) cpu() (sum time.Duration) {
	for _, r := range q.nodes {
		for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, _ := strconv.ParseFloat(r.server.Info("cpu", field), 64)
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// ownCPU is the processor time of this process so far.
func ownCPU() time.Duration {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// againstBare compares lock and unlock of sixteen names with SET NX PX and DEL on
// all five servers in parallel, each done when three have answered, by the same
// client library.
func againstBare(t *testing.T) {
	const workers, repetitions = 16, 5
	q, c := figuresRig(t)
	var clients []rueidis.Client
	for _, r := range q.nodes {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.server.Addr}, DisableCache: true, ForceSingleClient: true})
		must.OK(t, err)
		defer c.Close()
		clients = append(clients, c)
	}
	ours := func(i int) error {
		l, err := c.Mutex(fmt.Sprint("lab/bench/", i)).Lock(context.Background())
		if err != nil {
			return err
		}
		return l.Unlock(context.Background())
	}
	bare := func(i int) error {
		key := fmt.Sprint("bare/", i)
		if err := onThree(clients, func(c rueidis.Client) rueidis.Completed {
			return c.B().Set().Key(key).Value("value").Nx().Px(time.Minute).Build()
		}); err != nil {
			return err
		}
		return onThree(clients, func(c rueidis.Client) rueidis.Completed { return c.B().Del().Key(key).Build() })
	}
	var ratios, a, b []float64
	var ourCost, bareCost cost
	for i := range repetitions + 1 {
		x := ourCost.of(q, func() float64 { return rate(t, workers, 1500*time.Millisecond, ours) })
		y := bareCost.of(q, func() float64 { return rate(t, workers, 1500*time.Millisecond, bare) })
		if i > 0 { // the first only warms up
			a, b, ratios = append(a, x), append(b, y), append(ratios, x/y)
		}
	}
	for _, list := range [][]float64{a, b, ratios} {
		slices.Sort(list)
	}
	mid := len(ratios) / 2
	fmt.Printf("quorum: %.0f lock and unlock/s, bare %.0f/s\n", a[mid], b[mid])
	fmt.Printf("quorum: processor time each: servers %v, client %v; bare: servers %v, client %v\n",
		ourCost.servers/repetitions, ourCost.client/repetitions, bareCost.servers/repetitions, bareCost.client/repetitions)
	figure.Print("quorum-uncontended-vs-bare-16", ratios[mid], figure.AtLeast(0.85))
}

// onThree sends a command to all servers and returns when three have answered.
func onThree(clients []rueidis.Client, command func(rueidis.Client) rueidis.Completed) error {
	answers := make(chan error, len(clients))
	for _, c := range clients {
		go func() { answers <- c.Do(context.Background(), command(c)).Error() }()
	}
	for range 3 {
		if err := <-answers; err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}
	return nil
}

// stalled compares the slowest hundredth of lock and unlock with all servers well
// and with one stopped, with sixteen workers.
func stalled(t *testing.T) {
	q, c := figuresRig(t)
	p99 := func(d time.Duration) time.Duration {
		var mu sync.Mutex
		var took []time.Duration
		rate(t, 16, d, func(i int) error {
			began := time.Now()
			l, err := c.Mutex(fmt.Sprint("stall/", i)).Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			mu.Lock()
			took = append(took, time.Since(began))
			mu.Unlock()
			return err
		})
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	p99(time.Second)
	var ratios []float64
	for range 3 {
		well := p99(3 * time.Second)
		resume := q.nodes[1].server.Pause()
		bad := p99(3 * time.Second)
		resume()
		p99(time.Second) // it is found to be back
		fmt.Printf("quorum: p99 %v with all servers, %v with one stopped\n", well, bad)
		ratios = append(ratios, float64(bad)/float64(well))
	}
	slices.Sort(ratios)
	figure.Print("quorum-stalled-p99-ratio", ratios[1], figure.AtMost(1.5))
}
