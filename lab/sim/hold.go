// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// work is what a worker does under its lease: it reads and writes the resource,
// with its token and without, and stops when its context ends, unless it is rude.
func (k *worker) work(o op, id int, l *fencelock.Lease, hold time.Duration) {
	until := l.Context()
	if k.rude {
		until = k.p.alive
	}
	ctx, cancel := context.WithCancel(until)
	defer cancel()
	defer context.AfterFunc(k.p.alive, cancel)()
	if id%4 == 0 {
		k.giveWay(ctx, l, cancel)
	}
	steps, down := 1+k.r.IntN(3), -1
	if o.name.Kind == RWName && o.mode == driver.Exclusive && k.r.IntN(2) == 0 {
		down = k.r.IntN(steps)
	}
	if o.mode == driver.Exclusive && o.as == "" && k.r.IntN(8) == 0 {
		k.reenter(o, id, l)
	}
	for i := range steps {
		// Parts that add up exactly, so that a grid of times is kept.
		part := hold*time.Duration(i+1)/time.Duration(steps) - hold*time.Duration(i)/time.Duration(steps)
		if i == down {
			if !k.downgrade(o, id, l) {
				return
			}
			o.mode = driver.Shared
		}
		if ctx.Err() != nil || !k.part(ctx, o, id, l, part) {
			return
		}
	}
}

// part is one part of the work.
func (k *worker) part(ctx context.Context, o op, id int, l *fencelock.Lease, d time.Duration) bool {
	if o.name.Kind == SemaphoreName || o.as != "" || isJob(o.name.Name) { // it is not alone
		return sleep(ctx, d)
	}
	return k.step(ctx, o, id, l, d)
}

// step reads, waits and writes; a reader reads again instead. Between the two
// no other client may have written, or the second is refused.
func (k *worker) step(ctx context.Context, o op, id int, l *fencelock.Lease, pause time.Duration) bool {
	res, token := k.w.resources[o.name.Name], l.Token()
	e := Event{Client: k.p.index, Worker: k.index, Acq: id, Token: token}
	e.Kind = Read
	e.N, e.OK = res.read(token, o.mode)
	k.w.rec.add(e)
	if !e.OK {
		return false
	}
	bare := res.get()
	slept := pause == 0 || sleep(ctx, pause)
	k.p.machine.wait()
	if k.p.dead.Load() || (!slept && !k.rude) {
		return false
	}
	if o.mode == driver.Exclusive {
		if res.get() != bare {
			k.w.cover.add("unfenced overlaps")
		}
		res.set(bare + 1)
		e.Kind = Wrote
		e.N, e.OK = res.write(token)
	} else {
		e.N, e.OK = res.read(token, o.mode)
	}
	k.w.rec.add(e)
	return e.OK
}

// reenter locks the same name under the lease's context.
func (k *worker) reenter(o op, id int, l *fencelock.Lease) {
	e := Event{Kind: Reentered, Client: k.p.index, Worker: k.index, Acq: id}
	in, err := k.p.client.Mutex(o.name.Name).Lock(l.Context())
	e.Err = err
	if err == nil {
		e.OK, e.Token = true, in.Token()
		e.Err = in.Unlock(context.Background())
	}
	k.w.rec.add(e)
	k.w.cover.add("reentered")
}
