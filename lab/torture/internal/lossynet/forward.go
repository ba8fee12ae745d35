// SPDX-License-Identifier: Apache-2.0

package lossynet

import (
	"container/heap"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// forwarder carries packets between two devices.
type forwarder struct {
	mu     sync.Mutex
	chance *rand.Rand
	hosts  map[byte]*host
}

// host is the wire to one host of the far side.
type host struct {
	state   State
	since   time.Time
	free    [2]time.Time // when a slow wire has sent what waits, by direction
	touched int          // packets that did not pass as they are, since the state was set
}

func newForwarder(seed uint64) *forwarder {
	return &forwarder{chance: rand.New(rand.NewPCG(seed, 4)), hosts: map[byte]*host{}}
}

// set changes the wire of a host and returns how many packets the state before had touched.
func (f *forwarder) set(n byte, s State) (touched int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[n]; h != nil {
		touched = h.touched
	}
	f.hosts[n] = &host{state: s, since: time.Now()}
	return touched
}

// run forwards in one direction until the device that it reads ends.
func (f *forwarder) run(d direction, from io.Reader, to io.Writer) {
	q := newQueue(to)
	defer q.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		for _, p := range f.judge(d, slices.Clone(buf[:n]), time.Now()) {
			q.push(p)
		}
	}
}

// judge returns when the packet, and perhaps a copy, is to be sent on.
func (f *forwarder) judge(d direction, packet []byte, now time.Time) []timed {
	number, ok := hostOf(d, packet)
	if !ok {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[number]
	if h == nil {
		return []timed{{now, packet}}
	}
	queued := max(h.free[d].Sub(now), 0)
	fate := h.state.decide(d, len(packet), now.Sub(h.since), queued, f.chance)
	if fate.touched() {
		h.touched++
	}
	if fate.drop {
		return nil
	}
	if h.state.Slow {
		h.free[d] = now.Add(queued + h.state.onWire(len(packet)))
	}
	if fate.corrupt {
		corrupt(packet, f.chance)
	}
	out := []timed{{now.Add(fate.after), packet}}
	if fate.again {
		out = append(out, timed{now.Add(fate.after + h.state.By), packet})
	}
	return out
}

// timed is a packet and when it is due.
type timed struct {
	due    time.Time
	packet []byte
}

// queue sends packets when they are due, those of one time in order.
type queue struct {
	to   io.Writer
	in   chan timed
	over chan struct{}
}

func newQueue(to io.Writer) *queue {
	q := &queue{to: to, in: make(chan timed, 1024), over: make(chan struct{})}
	go q.send()
	return q
}

func (q *queue) push(p timed) { q.in <- p }

func (q *queue) close() { close(q.in); <-q.over }

// send is the goroutine of the queue.
func (q *queue) send() {
	defer close(q.over)
	var waiting byTime
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for len(waiting) > 0 && !waiting[0].due.After(time.Now()) {
			_, _ = q.to.Write(heap.Pop(&waiting).(timed).packet) // a device that is gone loses them
		}
		next := time.Hour
		if len(waiting) > 0 {
			next = time.Until(waiting[0].due)
		}
		timer.Reset(max(next, 0))
		select {
		case p, ok := <-q.in:
			if !ok {
				return
			}
			heap.Push(&waiting, p)
		case <-timer.C:
		}
	}
}

type byTime []timed

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, j int) bool { return b[i].due.Before(b[j].due) }
func (b byTime) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byTime) Push(p any)        { *b = append(*b, p.(timed)) }
func (b *byTime) Pop() any {
	old := *b
	p := old[len(old)-1]
	*b = old[:len(old)-1]
	return p
}
