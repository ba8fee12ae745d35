// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// downgrade makes the lease a reader's, with the options it was locked with or
// without them. It returns false if the worker shall unlock while that is still
// under way.
func (k *worker) downgrade(o op, id int, l *fencelock.Lease) bool {
	e := Event{Kind: Downgrading, Client: k.p.index, Worker: k.index, Acq: id}
	k.w.rec.add(e)
	k.w.cover.add("op: downgrade")
	var opts []fencelock.LockOption
	if k.r.IntN(2) == 0 {
		opts = o.options()
	}
	ctx, cancel := context.WithTimeout(k.p.alive, share(k.r, k.w.s.T, 0.05, 1))
	done := make(chan struct{})
	k.p.aside.Go(func() {
		defer close(done)
		defer cancel()
		err := k.p.client.RWMutex(o.name.Name, opts...).Downgrade(ctx, l)
		e.Kind, e.OK, e.Err = Downgraded, err == nil, err
		k.w.rec.add(e)
	})
	if k.r.IntN(2) == 0 && !sleepUnless(done, share(k.r, k.w.s.T, 0, 0.2)) {
		k.w.cover.add("unlocked during a downgrade")
		return false
	}
	<-done
	return true
}

// sleepUnless waits until done, and reports whether that came before the time.
func sleepUnless(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// all locks all mutexes and write locks of the schedule together.
func (k *worker) all(patience, hold time.Duration) {
	var ops []op
	for _, n := range k.w.s.Names {
		if n.Kind != SemaphoreName {
			ops = append(ops, op{name: n, weight: 1})
		}
	}
	if len(ops) < 2 {
		k.once(k.choose(false), patience, hold)
		return
	}
	ctx, cancel := context.WithTimeout(k.p.alive, patience)
	defer cancel()
	me, i := k.p.index, k.index
	var names []string
	var ids []int
	for _, o := range ops {
		e := o.event(me, i, patience)
		e.All = true
		ids, names = append(ids, k.w.rec.call(e)), append(names, o.name.Name)
	}
	slices.Reverse(names) // the order that is given must not matter
	set, err := k.p.client.LockAll(ctx, names)
	k.w.cover.add("op: lock all")
	if err != nil {
		for _, id := range ids {
			k.w.returned(me, i, id, nil, err)
		}
		return
	}
	k.w.cover.add("answer: granted all")
	for n, id := range ids {
		k.w.returned(me, i, id, set.Lease(ops[n].name.Name), nil)
	}
	k.work(ops[0], ids[0], set.Lease(ops[0].name.Name), k.bounded(hold))
	k.p.machine.wait()
	if k.p.dead.Load() {
		return
	}
	k.w.unlockAll(me, i, ids, ops, set)
}

// unlockAll gives all leases back. Each of them answers for itself again.
func (w *world) unlockAll(client, worker int, ids []int, ops []op, set *fencelock.LeaseSet) {
	e := Event{Client: client, Worker: worker}
	for _, id := range ids {
		e.Kind, e.Acq = Unlocking, id
		w.rec.add(e)
	}
	_ = set.Unlock(context.Background())
	for n, id := range ids {
		err := set.Lease(ops[n].name.Name).Unlock(context.Background())
		w.rec.add(Event{Kind: Unlocked, Client: client, Worker: worker, Acq: id, OK: err == nil, Err: err})
	}
}

// markKeep is how long the mark of an occurrence is kept.
func markKeep(t time.Duration) time.Duration { return 3 * t }

// jobPrefix is what the locks of occurrences begin with.
const jobPrefix = "job@"

// job returns the name of the occurrence of now.
func (k *worker) job() string { return fmt.Sprint(jobPrefix, int64(k.w.rec.now()/k.w.s.T)) }

// isJob reports whether a name is that of an occurrence. Marks are kept in the
// store there that belong to no acquisition.
func isJob(name string) bool { return strings.HasPrefix(name, jobPrefix) }

// occurrence runs what is to be run once in a while, wherever.
func (k *worker) occurrence() {
	t := k.w.s.T
	name := k.job()
	tick := strings.TrimPrefix(name, jobPrefix)
	e := Event{Client: k.p.index, Worker: k.index, Name: name, Since: k.w.rec.place()}
	took := share(k.r, t, 0, 0.3)
	fails := k.r.IntN(5) == 0
	res, err := k.p.client.Once("job", markKeep(t)).Do(k.p.alive, tick, func(ctx context.Context, l *fencelock.Lease) error {
		e.Kind, e.Token = Began, l.Token()
		k.w.rec.add(e)
		slept := sleep(ctx, took)
		k.p.machine.wait()
		if !slept || fails {
			return driver.ErrUnavailable // of whatever it wanted to do
		}
		e.Kind = Ended
		k.w.rec.add(e)
		return nil
	})
	k.w.cover.add("once: " + res.String())
	if e.Kind == Ended {
		k.w.rec.add(Event{Kind: Marked, Client: e.Client, Worker: e.Worker, Name: e.Name, Token: e.Token, OK: err == nil, Err: err})
	}
}
