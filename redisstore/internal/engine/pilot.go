// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"runtime"
	"slices"

	"github.com/fencelock/fencelock/driver"
)

const (
	// flights is how many folded calls are under way at a time: one to be
	// executed while the next is collected.
	flights = 2
	// maxFold bounds what one call carries, so that it never keeps a server busy
	// for long.
	maxFold = 256
	// maxRecords bounds the bytes of its records in the same way. It is reached by
	// records of half the size they may have, all of them different.
	maxRecords = maxFold * driver.MaxRecordBytes / 2
)

// line returns a line to fly alone, nil if there is none to be had or others wait.
// Wants f.mu.
func (f *fold) line() Line {
	if len(f.queue) > 0 || f.flying == flights {
		return nil
	}
	return f.take()
}

// take returns a line that nobody uses. Wants f.mu, and f.flying below flights.
func (f *fold) take() (line Line) {
	f.flying++
	if n := len(f.lines); n > 0 {
		line, f.lines = f.lines[n-1], f.lines[:n-1]
		return line
	}
	return f.s.store.client.Line(f.s.store.bucket(f.s.shard))
}

// landed gives a line back, and lets those who wait leave. Wants f.mu.
func (f *fold) landed(line Line) {
	f.flying--
	if f.s.ctx.Err() != nil {
		line.Close()
	} else {
		f.lines = append(f.lines, line)
	}
	switch {
	case len(f.queue) == 0:
	case f.idle > 0:
		f.work.Signal()
	case f.pilots < flights:
		f.pilots++
		go f.pilot()
	}
}

// pilot makes the calls for those who wait together, until the session is over. It
// is a goroutine of its own because none of them may wait for the others, and it
// stays for the next call because a new one would grow its stack each time.
func (f *fold) pilot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.queue) == 0 || f.flying == flights {
			if f.s.ctx.Err() != nil && len(f.queue) == 0 {
				f.pilots--
				return
			}
			f.idle++
			f.work.Wait()
			f.idle--
		}
		line := f.take()
		f.mu.Unlock()
		runtime.Gosched() // those who are about to ask come along
		f.mu.Lock()
		if batch := f.board(); len(batch) > 0 {
			f.mu.Unlock()
			f.fly(line, batch)
			f.mu.Lock()
		}
		f.landed(line)
	}
}

// fly makes one call, on no caller's context: others depend on it too.
func (f *fold) fly(line Line, batch []*folded) {
	ctx, cancel := context.WithTimeout(context.Background(), f.s.ttl)
	defer cancel()
	f.deliver(ctx, line, batch)
	for _, o := range batch {
		o.done <- struct{}{}
	}
}

// board takes from the queue what one call can carry: withdrawals, which stand first,
// each of another claim, and attempts, each for another name. The script looks at all
// of them before it does any. Wants f.mu.
func (f *fold) board() []*folded {
	var last *encoded
	clear(f.names)
	clear(f.seqs)
	n, size := 0, 0
	for _, o := range f.queue[:min(len(f.queue), maxFold)] {
		if o.record != nil {
			if o.record != last {
				last, size = o.record, size+len(o.record.text)
			}
			if _, twice := f.names[o.name]; twice || n > 0 && size > maxRecords {
				break
			}
			f.names[o.name] = struct{}{}
		} else {
			if _, twice := f.seqs[o.seq]; twice {
				break
			}
			f.seqs[o.seq] = struct{}{}
		}
		o.gone = true
		n++
	}
	batch := make([]*folded, 0, n)
	for _, withdrawals := range []bool{true, false} {
		for _, o := range f.queue[:n] {
			if (o.op == 'W') == withdrawals {
				batch = append(batch, o)
			}
		}
	}
	f.queue = slices.Delete(f.queue, 0, n)
	return batch
}

// close lets go of what nobody uses when the session is over.
func (f *fold) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.lines {
		line.Close()
	}
	f.lines = nil
	f.work.Broadcast()
}
