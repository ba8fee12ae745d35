// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/lab/internal/lock"
)

// Config is what a client process has to know; it is its first line of input. Each later line is a
// request for a Report.
type Config struct {
	Spec lock.Spec `json:"spec"`
	Seed uint64    `json:"seed"`
	// Workers use the locks at the same time.
	Workers int `json:"workers"`
	// Fresh is how many names there are that are mostly used once.
	Fresh int `json:"fresh"`
	// Lasting is how many leases it has even at rest.
	Lasting int `json:"lasting"`
	// Profiles is where profiles of the heap are written, to find out what grows; empty for none.
	Profiles string `json:"profiles"`
}

// Report is a line of output: after the start, for each request, and at the end.
type Report struct {
	Sample Sample `json:"sample"`
	Tally  Tally  `json:"tally"`
	// Held is how many of the leases that last over a rest are held.
	Held int `json:"held"`
	// Over is set in the last report, when everything is closed. Stacks are then the goroutines that are left.
	Over   bool   `json:"over"`
	Stacks string `json:"stacks,omitempty"`
}

// lasting is how many leases a client has even at rest, but for the last one: see soak.sweep.
const lasting = 3

// client is a client process.
type client struct {
	cfg   Config
	c     *fencelock.Client
	held  atomic.Int64
	turns atomic.Int64
	fails atomic.Int64
	last  atomic.Value // text of the last error
	// gate is held for reading by each operation, and for writing at rest.
	gate sync.RWMutex
}

// Client is a client process: it uses locks until its input ends, then closes everything.
func Client(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return fmt.Errorf("a client is started by the suite, with its configuration as input: %w", lines.Err())
	}
	k := &client{}
	if err := json.Unmarshal(lines.Bytes(), &k.cfg); err != nil {
		return err
	}
	replies := json.NewEncoder(out)
	if k.cfg.Profiles != "" {
		runtime.MemProfileRate = 2048
	}
	base := ofProcess()
	if err := replies.Encode(Report{Sample: base}); err != nil {
		return err
	}
	locks, err := lock.Open(k.cfg.Spec)
	if err != nil {
		return err
	}
	k.c = locks.(interface{ Client() *fencelock.Client }).Client()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	k.burst(ctx)
	var all sync.WaitGroup
	for i := range k.cfg.Workers {
		all.Go(func() { k.work(ctx, rand.New(rand.NewPCG(k.cfg.Seed, uint64(i)))) })
	}
	for i := range k.cfg.Lasting {
		all.Go(func() { k.keep(ctx, i, rand.New(rand.NewPCG(k.cfg.Seed, uint64(100+i)))) })
	}
	for i := 0; lines.Scan(); i++ {
		r := k.rest()
		if k.cfg.Profiles != "" && i%profileEvery == 0 {
			k.profile(i)
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
	stop()
	all.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*k.cfg.Spec.TTL)
	defer cancel()
	if err := locks.Close(ctx); err != nil {
		k.failed(err)
	}
	return replies.Encode(k.over(base))
}

// burst makes more calls at the same time than the workers do under a fault, so that pools of connections are as large as
// they get before the samples begin. That of memcached keeps the buffers of as many connections as were ever idle together; without
// this its heap grew by 50 KB whenever a fault set a new record.
func (k *client) burst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Spec.TTL)
	defer cancel()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := k.c.Inspect(ctx, fmt.Sprint("contended-", i%contended)); err != nil {
				k.failed(err)
			}
		})
	}
	all.Wait()
}

// profileEvery is how many rests there are for a profile.
const profileEvery = 20

// profile writes a profile of the heap. One that cannot be written is missed by a reader.
func (k *client) profile(i int) {
	f, err := os.Create(fmt.Sprintf("%s-%03d.prof", k.cfg.Profiles, i))
	if err != nil {
		return
	}
	_ = pprof.Lookup("heap").WriteTo(f, 0)
	_ = f.Close()
}

// quietFor is how long withdrawals in the background and connections that a fault cut have to end before
// a sample.
const quietFor = 1500 * time.Millisecond

// rest waits until no operation is in progress, and measures.
func (k *client) rest() Report {
	k.gate.Lock()
	defer k.gate.Unlock()
	time.Sleep(quietFor)
	for late := time.Now().Add(4 * k.cfg.Spec.TTL); k.held.Load() < int64(k.cfg.Lasting) && time.Now().Before(late); {
		time.Sleep(50 * time.Millisecond)
	}
	return Report{Sample: ofProcess(), Tally: k.tally(), Held: int(k.held.Load())}
}

// restsWithin is how long libraries may keep something after Close. A client of go-redis for a cluster is in a timer for up to a
// minute, with the buffers of all its connections.
const restsWithin = 75 * time.Second

// over measures when everything is closed. Libraries end their goroutines a while after Close.
func (k *client) over(base Sample) Report {
	s := ofProcess()
	for late := time.Now().Add(restsWithin); s.exceeds(base) && time.Now().Before(late); {
		time.Sleep(200 * time.Millisecond)
		s = ofProcess()
	}
	r := Report{Sample: s, Tally: k.tally(), Over: true}
	if s.Goroutines > base.Goroutines {
		var b strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
		r.Stacks = b.String()
	}
	return r
}

func (k *client) tally() Tally {
	t := Tally{Turns: k.turns.Load(), Errors: k.fails.Load(), CPU: processorTime()}
	t.Last, _ = k.last.Load().(string)
	return t
}

func (k *client) failed(err error) {
	k.fails.Add(1)
	k.last.Store(err.Error())
}

// work makes one operation after the other.
func (k *client) work(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		k.gate.RLock()
		err := k.turn(ctx, rng)
		k.gate.RUnlock()
		k.turns.Add(1)
		if err != nil && ctx.Err() == nil {
			k.failed(err)
			pause(ctx, time.Duration(rng.Int64N(int64(500*time.Millisecond)))) // a store that is away must not be hammered
		}
		pause(ctx, 50*time.Millisecond+time.Duration(rng.Int64N(int64(200*time.Millisecond))))
	}
}

// keep holds a lock for long, at rest too, and locks it again when it was lost.
func (k *client) keep(ctx context.Context, i int, rng *rand.Rand) {
	name := lastingName(k.cfg.Spec.Who, i)
	for ctx.Err() == nil {
		l, err := k.c.Mutex(name).Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				k.failed(err)
			}
			pause(ctx, 200*time.Millisecond)
			continue
		}
		k.held.Add(1)
		select {
		case <-l.Context().Done():
		case <-ctx.Done():
		case <-time.After(time.Duration(20+rng.IntN(40)) * time.Second):
		}
		k.held.Add(-1)
		_ = l.Unlock(context.WithoutCancel(ctx)) // a lease that was lost is not unlocked; that is no news
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
