// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// linger is about locks that linger on Redis, and the notices that end it.
func linger() []on {
	return []on{{suite.Redis.Start, []question{lingerRelock, lingerNotices, lingerInTurn, lingerAlternate}}}
}

// lingerRepetitions and lingerEach are how often, and how long each time.
const (
	lingerRepetitions = 7
	lingerEach        = 200 * time.Millisecond
)

// lingerNames is how many names stick to the process, and lingerFor how long each lingers.
const (
	lingerNames = 16
	lingerFor   = 10 * time.Second
)

// lingerRelock takes the names one after the other in one goroutine, again and again: with
// bare commands, from a process in which they linger, and as mutexes of this process.
var lingerRelock = question{part: "uncontended", figures: []query{
	{name: "linger-relock-vs-bare", goal: figure.AtLeast(30)}, {name: "linger-relock-ns-vs-mutex"}, {name: "linger-server-commands-per-1000-relocks", goal: figure.AtMost(10)},
}, count: func(ctx context.Context, e *suite.Env) ([]float64, error) {
	bare, err := candidate.BareRueidis.One(ctx, e.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	p, err := newLingerer(e.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer p.close()
	mutexes := make([]sync.Mutex, lingerNames)
	var ours [lingerNames]*fencelock.Mutex
	var names [lingerNames]string
	for i := range names {
		names[i] = fmt.Sprint("tenant/", i)
		ours[i] = p.client.Mutex(names[i], fencelock.Linger(lingerFor))
	}
	plain := context.Background()
	turns := []func(i int) error{
		func(i int) error { return candidate.Do(plain, bare, "bare/"+names[i], nil) },
		func(i int) error { return turn(plain, ours[i]) },
		func(i int) error { mutexes[i].Lock(); mutexes[i].Unlock(); return nil }, //nolint:staticcheck // the pair is what is measured
	}
	took := make([][]float64, len(turns)) // ns each
	var perThousand []float64
	for repetition := range lingerRepetitions + 1 {
		for kind, do := range turns {
			runtime.GC() // what the one before left is not this one's
			if err := e.Server.ResetStats(ctx); err != nil {
				return nil, err
			}
			n, each, err := repeat(lingerEach, do)
			if err != nil {
				return nil, err
			}
			if repetition == 0 {
				continue // scripts, sessions and subscriptions begin
			}
			took[kind] = append(took[kind], each)
			if kind == 1 {
				stats, err := e.Server.Stats(ctx)
				if err != nil {
					return nil, err
				}
				sent := stats.Sent(candidate.FencelockLinger.Plain).Calls
				perThousand = append(perThousand, 1000*float64(sent)/float64(n))
			}
		}
	}
	fmt.Printf("linger: bare %.0f ns, lingering %.0f ns, sync.Mutex %.1f ns for a lock and an unlock (medians of %d)\n",
		stat.Median(took[0]), stat.Median(took[1]), stat.Median(took[2]), lingerRepetitions)
	return []float64{stat.Ratio(took[0], took[1]), stat.Ratio(took[1], took[2]), stat.Median(perThousand)}, nil
}}

// repeat calls do with one name after the other for so long, and returns how often it did
// and the ns of each. The clock is read seldom: it costs more than a mutex.
func repeat(d time.Duration, do func(i int) error) (n int, each float64, err error) {
	began := time.Now()
	for {
		for i := range lingerNames {
			if err := do(i); err != nil {
				return 0, 0, err
			}
		}
		n += lingerNames
		if n%(16*lingerNames) != 0 {
			continue
		}
		if took := time.Since(began); took >= d {
			return n, float64(took.Nanoseconds()) / float64(n), nil
		}
	}
}

// turn locks and unlocks.
func turn(ctx context.Context, m *fencelock.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// lingerer is a client with a dedicated store and connections, as another process has. Its
// goroutines are woken by the scheduler of this process, which favors no side: all that is
// compared is measured between two of these.
type lingerer struct {
	client *fencelock.Client
	close  func()
}

func newLingerer(addr string) (*lingerer, error) {
	store, closeStore, err := candidate.RueidisStore(addr, 1)
	if err != nil {
		return nil, err
	}
	client, err := fencelock.New(store, nil)
	if err != nil {
		closeStore()
		return nil, err
	}
	return &lingerer{client, func() {
		_ = client.Close(context.Background())
		closeStore()
	}}, nil
}

// newPair is two of them.
func newPair(addr string) (pair [2]*lingerer, closePair func(), err error) {
	pair[0], err = newLingerer(addr)
	if err != nil {
		return pair, nil, err
	}
	pair[1], err = newLingerer(addr)
	if err != nil {
		pair[0].close()
		return pair, nil, err
	}
	return pair, func() { pair[0].close(); pair[1].close() }, nil
}

// lingerNotices measures what another process pays for a lock that lingers.
var lingerNotices = question{part: "processes", figures: []query{
	{name: "linger-first-contender-vs-handoff", goal: figure.AtMost(2.2)}, {name: "wanted-latency-vs-push", goal: figure.AtMost(1.5)}, {name: "linger-trylock-recall-success", goal: figure.AtLeast(0.99)},
}, count: func(ctx context.Context, e *suite.Env) ([]float64, error) {
	pair, closePair, err := newPair(e.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer closePair()
	const rounds, warm = 240, 20
	var all lingerTimes
	for i := range rounds + warm {
		if i == warm {
			all = lingerTimes{}
		}
		if err := all.measure(ctx, pair[i%2].client, pair[(i+1)%2].client, i); err != nil {
			return nil, err
		}
	}
	fmt.Printf("linger: %s\n", &all)
	handoff := stat.Median(all.handoff)
	return []float64{stat.Median(all.first) / handoff, stat.Median(all.wanted) / handoff, float64(all.tried) / float64(all.tried+all.refused)}, nil
}}

// lingerTimes are times in µs, by round, and how the tries ended.
type lingerTimes struct {
	called         []float64 // from the waiter's call of Lock to the holder's notice
	wanted         []float64 // the same if the call queues its claim at once
	handoff        []float64 // from the holder's call of Unlock to the waiter's return from Lock
	first          []float64 // a Lock of a name that lingers in the other process
	tries          []float64 // a TryLock of such a name
	tried, refused int
}

func (t *lingerTimes) String() string {
	p50 := func(us []float64) float64 { return stat.Median(us) }
	return fmt.Sprintf("p50 of %d: notice %.0f µs after the call of Lock, %.0f µs after the claim was sent to be queued, handoff %.0f µs, first Lock %.0f µs, TryLock %.0f µs; %d of %d tries succeeded",
		len(t.first), p50(t.called), p50(t.wanted), p50(t.handoff), p50(t.first), p50(t.tries), t.tried, t.tried+t.refused)
}

func since(began time.Time) float64 { return float64(time.Since(began).Nanoseconds()) / 1000 }

// measure measures each time once, on names that were not used before.
func (t *lingerTimes) measure(ctx context.Context, mine, theirs *fencelock.Client, round int) error {
	steps := []func(context.Context, *fencelock.Client, *fencelock.Client, string) error{t.contend, t.contendIdle, t.tryIdle}
	if round%2 == 1 {
		slices.Reverse(steps)
	}
	for i, step := range steps {
		if err := step(ctx, mine, theirs, fmt.Sprintf("round/%d/%d", round, i)); err != nil {
			return err
		}
	}
	return nil
}

// contend lets a process wait for the holder, who unlocks when it was notified. It does so twice:
// the second time the process knows that the name is waited for, and queues its claim at once.
func (t *lingerTimes) contend(ctx context.Context, mine, theirs *fencelock.Client, name string) error {
	for _, notices := range []*[]float64{&t.called, &t.wanted} {
		if err := t.giveWay(ctx, mine, theirs, name, notices); err != nil {
			return err
		}
	}
	return nil
}

func (t *lingerTimes) giveWay(ctx context.Context, mine, theirs *fencelock.Client, name string, notices *[]float64) error {
	held, err := mine.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = held.Unlock(ctx) }() // if the holder is not notified; otherwise it has been unlocked
	wanted := held.Contended()
	time.Sleep(2 * time.Millisecond) // the store knows that it is watched
	type acquired struct {
		at  time.Time
		err error
	}
	done, over := make(chan acquired, 1), make(chan struct{})
	asked := time.Now()
	go func() {
		defer close(over)
		l, err := theirs.Mutex(name).Lock(ctx)
		done <- acquired{time.Now(), err}
		if err == nil {
			_ = l.Unlock(ctx)
		}
	}()
	select {
	case <-wanted:
		*notices = append(*notices, since(asked))
	case <-time.After(lingerFor):
		return fmt.Errorf("%s: the holder was not notified of a waiter", name)
	}
	time.Sleep(2 * time.Millisecond) // the waiter has its answer and waits
	unlocked := time.Now()
	if err := held.Unlock(ctx); err != nil {
		return err
	}
	got := <-done
	<-over
	t.handoff = append(t.handoff, float64(got.at.Sub(unlocked).Nanoseconds())/1000)
	return got.err
}

// contendIdle locks what lingers in another process.
func (t *lingerTimes) contendIdle(ctx context.Context, mine, theirs *fencelock.Client, name string) error {
	if err := turn(ctx, mine.Mutex(name, fencelock.Linger(lingerFor))); err != nil {
		return err
	}
	asked := time.Now()
	l, err := theirs.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	t.first = append(t.first, since(asked))
	return l.Unlock(ctx)
}

// tryIdle tries what lingers in another process.
func (t *lingerTimes) tryIdle(ctx context.Context, mine, theirs *fencelock.Client, name string) error {
	if err := turn(ctx, mine.Mutex(name, fencelock.Linger(lingerFor))); err != nil {
		return err
	}
	asked := time.Now()
	l, err := theirs.Mutex(name).TryLock(ctx)
	if err != nil {
		t.refused++
		return nil //nolint:nilerr // how often it fails is the figure
	}
	t.tries = append(t.tries, since(asked))
	t.tried++
	return l.Unlock(ctx)
}

// lingerAlternate lets two processes that both want a lock have it in turn, with and without Linger.
var lingerAlternate = question{
	part: "processes", metrics: handoffMetrics,
	measure: lasting(lingerRepetitions, 400*time.Millisecond, contended(
		suite.Crowd{Candidate: ours, Processes: 2}, suite.Crowd{Candidate: candidate.FencelockLinger, Processes: 2})),
	figures: []query{{"linger-contended-penalty", figure.AtMost(1.3), ratio("", candidate.FencelockLinger, ours, suite.Handoff50)}},
}

// lingerInTurn is how much longer a turn takes if the name may linger in the process that had it before, when
// none waits, which Linger is not for.
var lingerInTurn = question{part: "processes", figures: []query{{name: "linger-pingpong-penalty", goal: figure.AtMost(1.3)}}, count: func(ctx context.Context, e *suite.Env) ([]float64, error) {
	pair, closePair, err := newPair(e.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer closePair()
	var ratios []float64
	var turns, scripts [2]int // a script costs the server three times what plain commands cost
	for repetition := range lingerRepetitions + 1 {
		var each [2]float64
		for on := range each {
			var options []fencelock.LockOption
			if on == 1 {
				options = append(options, fencelock.Linger(lingerFor))
			}
			err := e.Server.ResetStats(ctx)
			if err != nil {
				return nil, err
			}
			var n int
			n, each[on], err = repeat(lingerEach, func(i int) error {
				return turn(ctx, pair[i%2].client.Mutex(fmt.Sprint("turn/", on), options...))
			})
			if err != nil {
				return nil, err
			}
			stats, err := e.Server.Stats(ctx)
			if err != nil {
				return nil, err
			}
			if repetition > 0 {
				turns[on], scripts[on] = turns[on]+n, scripts[on]+stats.Sent(nil).Calls
			}
		}
		if repetition > 0 {
			ratios = append(ratios, each[1]/each[0])
		}
	}
	fmt.Printf("linger: %d scripts in %d turns of two processes one after the other with Linger, %d in %d without; ratios of time %.2f\n",
		scripts[1], turns[1], scripts[0], turns[0], ratios)
	return []float64{stat.Median(ratios)}, nil
}}
