// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

var stormFor = flag.Duration("slots.for", 4*time.Second, "for how long slots move in TestLocksInMovingSlots; the figure is of 5 minutes")

// watch finds holders that overlap, by what the leases say of themselves.
type watch struct {
	mu       sync.Mutex
	holders  map[string]map[*fencelock.Lease]int64 // weights; 0 is exclusive
	kept     map[string]time.Time                  // until when MinHold keeps a name at least
	grants   int
	overlaps []string
}

// enter notes a grant, before its lock is released. limit is 0 if there is none.
func (w *watch) enter(l *fencelock.Lease, weight, limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants++
	if w.holders[l.Name()] == nil {
		w.holders[l.Name()] = map[*fencelock.Lease]int64{}
	}
	sum := weight
	for other, its := range w.holders[l.Name()] {
		if !other.Valid() {
			continue
		}
		sum += its
		if (weight == 0 || its == 0) && l.Valid() {
			w.overlaps = append(w.overlaps, fmt.Sprintf("%s is held with tokens %v and %v", l.Name(), other.Token(), l.Token()))
		}
	}
	if limit > 0 && sum > limit && l.Valid() {
		w.overlaps = append(w.overlaps, fmt.Sprintf("%s is held with weights of %d, of %d", l.Name(), sum, limit))
	}
	w.holders[l.Name()][l] = weight
}

// leave notes that a lock is about to be released.
func (w *watch) leave(l *fencelock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.holders[l.Name()], l)
}

// hold notes a grant with a MinHold that was asked for at a time.
func (w *watch) hold(l *fencelock.Lease, asked time.Time, least time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Before(w.kept[l.Name()]) {
		w.overlaps = append(w.overlaps, fmt.Sprintf("%s was granted %v before MinHold is over", l.Name(), w.kept[l.Name()].Sub(now)))
	}
	w.kept[l.Name()] = asked.Add(least)
}

// use takes a lock of any kind, and releases it.
func (w *watch) use(ctx context.Context, p *party, r *rand.Rand) error {
	const least = 100 * time.Millisecond
	var l *fencelock.Lease
	var err error
	var weight, limit int64
	name := func(kind string, of int) string { return fmt.Sprint(kind, " ", r.IntN(of)) }
	asked, kept := time.Now(), false
	switch r.IntN(8) {
	case 0, 1:
		l, err = p.Mutex(name("mutex", 4)).Lock(ctx)
	case 2:
		l, err = p.RWMutex(name("rw", 4)).Lock(ctx)
	case 3, 4:
		weight = 1
		l, err = p.RWMutex(name("rw", 4)).RLock(ctx)
	case 5, 6:
		weight, limit = 1+r.Int64N(2), 3
		l, err = p.Semaphore(name("permits", 4), limit).Acquire(ctx, weight)
	default: // not waited for, so that it is granted when it is asked for
		weight, limit, kept = 1, 1, true
		l, err = p.Semaphore(name("kept", 4), 1, fencelock.MinHold(least)).TryAcquire(ctx, 1)
	}
	if err != nil {
		return err
	}
	if kept {
		w.hold(l, asked, least)
	}
	w.enter(l, weight, limit)
	select {
	case <-l.Context().Done():
	case <-time.After(time.Duration(r.IntN(200)) * time.Millisecond):
	}
	w.leave(l)
	unlocking, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = l.Unlock(unlocking) // after a move it is done in the background
	return nil
}

// TestLocksInMovingSlots: locks of all kinds are used by both libraries while their slots move, and while moves are begun
// and given up. With grace no two holders overlap.
func TestLocksInMovingSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.Redis.StartCluster(t, redistest.Never)
	opts := native.Options{Namespace: "storm", Buckets: 2, Grace: true, MaxTTL: 3 * time.Second}
	w := &watch{holders: map[string]map[*fencelock.Lease]int64{}, kept: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	for i := range 4 {
		p := join(t, nil, fmt.Sprint("process ", i), libraries[i%2].open(t, login{Nodes: cluster.Addrs()}, &opts), fencelock.Options{TTL: opts.MaxTTL})
		for g := range 6 {
			workers.Go(func() {
				for r := rand.New(rand.NewPCG(uint64(i), uint64(g))); ctx.Err() == nil; {
					if err := w.use(ctx, p, r); err != nil && ctx.Err() == nil && !errors.Is(err, fencelock.ErrBusy) && !errors.Is(err, fencelock.ErrGrace) && !errors.Is(err, fencelock.ErrUnavailable) {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	w.more(t) // the first grace period is over
	finished, givenUp := w.moveSlots(t, cluster, opts.Namespace)
	cancel()
	workers.Wait()
	t.Logf("%d grants, %d moves, %d moves given up", w.grants, finished, givenUp)
	figure.Print("grants-in-moving-slots", w.grants, figure.AtLeast(100))
	figure.Print("overlaps-in-moving-slots", len(w.overlaps), figure.Exactly(0))
	for _, o := range w.overlaps {
		t.Error(o)
	}
}

// more waits until locks are granted again.
func (w *watch) more(t *testing.T) {
	t.Helper()
	grants := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.grants
	}
	before := grants()
	redistest.WaitFor(t, "locks are granted", func() bool { return grants() > before+40 })
}

// moveSlots moves slots of a namespace. Most moves are given up before a key has moved: one that is finished costs a grace
// period, in which nothing happens.
func (w *watch) moveSlots(t *testing.T, cluster *redistest.Cluster, namespace string) (finished, givenUp int) {
	t.Helper()
	until := time.Now().Add(*stormFor)
	for r := rand.New(rand.NewPCG(7, 7)); time.Now().Before(until); w.more(t) {
		owners := owners(t, cluster, namespace)
		slot := slices.Sorted(maps.Keys(owners))[r.IntN(len(owners))]
		from := owners[slot]
		to := cluster.BeginMove(slot, from)
		time.Sleep(300 * time.Millisecond) // the other keys of the slot would move first
		if (finished+givenUp)%10 != 3 {
			cluster.AbortMove(slot, from, to)
			givenUp++
		} else {
			cluster.FinishMove(slot, from, to, func(string) {})
			finished++
		}
	}
	return finished, givenUp
}

// owners are the masters of the slots with buckets of a namespace.
func owners(t *testing.T, cluster *redistest.Cluster, namespace string) map[int]*servers.RedisServer {
	t.Helper()
	found := map[int]*servers.RedisServer{}
	for _, n := range cluster.Masters() {
		buckets, err := n.Do("KEYS", namespace+":*}").StringSlice()
		for _, b := range buckets {
			var slot int
			if slot, err = n.Do("CLUSTER", "KEYSLOT", b).Int(); err == nil {
				found[slot] = n
			}
		}
		must.OK(t, err)
	}
	return found
}
