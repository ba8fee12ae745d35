// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"context"
	"runtime"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

const (
	// maxInFlight is how many calls are in flight at once: one is executed while
	// the next is collected.
	maxInFlight = 2
	// maxBatch bounds what one call carries, so that it never keeps a server busy
	// for long.
	maxBatch = 256
	// maxRecords bounds the bytes of its records in the same way. Records of half
	// the maximum size, all of them different, reach it.
	maxRecords = maxBatch * driver.MaxRecordBytes / 2
)

// freeConnLocked returns a connection to send one operation alone. It returns nil if
// enough calls are in flight or other operations are queued. f.mu must be held.
func (f *batcher) freeConnLocked() wire.Conn {
	if len(f.queue) > 0 || f.inFlight == maxInFlight {
		return nil
	}
	return f.takeLocked()
}

// takeLocked returns a free connection. f.mu must be held, and f.inFlight must be below
// maxInFlight.
func (f *batcher) takeLocked() (conn wire.Conn) {
	f.inFlight++
	if n := len(f.conns); n > 0 {
		conn, f.conns = f.conns[n-1], f.conns[:n-1]
		return conn
	}
	return f.s.store.client.Conn(f.s.store.bucket(f.s.shard))
}

// releaseLocked gives a connection back and starts a sender for what is queued. f.mu must
// be held.
func (f *batcher) releaseLocked(conn wire.Conn) {
	f.inFlight--
	if f.s.ctx.Err() != nil {
		conn.Close()
	} else {
		f.conns = append(f.conns, conn)
	}
	switch {
	case len(f.queue) == 0:
	case f.idle > 0:
		f.work.Signal()
	case f.senders < maxInFlight:
		f.senders++
		go f.sendLoop()
	}
}

// sendLoop sends queued operations in batches until the session is over. It runs in its
// own goroutine because no caller may wait for the operations of others, and it stays
// for the next call because a new goroutine would grow its stack each time.
func (f *batcher) sendLoop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.queue) == 0 || f.inFlight == maxInFlight {
			if f.s.ctx.Err() != nil && len(f.queue) == 0 {
				f.senders--
				return
			}
			f.idle++
			f.work.Wait()
			f.idle--
		}
		conn := f.takeLocked()
		f.mu.Unlock()
		runtime.Gosched() // operations that are about to be queued come along
		f.mu.Lock()
		if batch := f.nextBatchLocked(); len(batch) > 0 {
			f.mu.Unlock()
			f.sendBatch(conn, batch)
			f.mu.Lock()
		}
		f.releaseLocked(conn)
	}
}

// sendBatch makes one call, on no caller's context: other callers depend on it too.
func (f *batcher) sendBatch(conn wire.Conn, batch []*operation) {
	ctx, cancel := context.WithTimeout(context.Background(), f.s.ttl)
	defer cancel()
	f.deliver(ctx, conn, batch)
	for _, o := range batch {
		o.done <- struct{}{}
	}
}

// nextBatchLocked takes from the queue what one call can carry: withdrawals, which come
// first, each of another claim, and attempts, each for another name. The script reads all
// of them before it changes anything. f.mu must be held.
func (f *batcher) nextBatchLocked() []*operation {
	var last *encoded
	clear(f.names)
	clear(f.seqs)
	n, size := 0, 0
	for _, o := range f.queue[:min(len(f.queue), maxBatch)] {
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
		o.sent = true
		n++
	}
	batch := make([]*operation, 0, n)
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

// close closes the free connections when the session is over.
func (f *batcher) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
	f.work.Broadcast()
}
