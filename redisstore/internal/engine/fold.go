// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fencelock/fencelock/driver"
)

const (
	// flights is how many folded calls are under way at a time: one to be
	// executed while the next is collected.
	flights = 2
	// maxFold bounds what one call carries, so that it never keeps a server busy
	// for long.
	maxFold = 256
)

// fold makes one call of many. A call that comes while fewer than two are under
// way leaves at once and alone; those that come meanwhile leave together when one
// of them has landed. So nobody waits for company, and under load the server runs
// one script for many claims.
type fold struct {
	s      *session
	suffix string // epoch and incarnation, as every claim of the session has them
	record atomic.Pointer[encoded]

	mu     sync.Mutex
	flying int
	queue  []*folded
}

// folded is one operation.
type folded struct {
	op, name, blob string
	gone           bool // left with a flight
	done           chan struct{}
	reply          []any
	err            error
}

// encoded is the record seen last: most claims of a process have the same.
type encoded struct {
	record *driver.Record
	text   string
}

func (f *fold) init(s *session) {
	f.s = s
	var incarnation int64
	_, _ = fmt.Sscan(s.incarnation, &incarnation)
	f.suffix = bytesOf(s.epoch, 7) + bytesOf(incarnation, 7)
}

// bytesOf is a number as n bytes, the most significant first.
func bytesOf(v int64, n int) string {
	b := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		b[i], v = byte(v), v>>8
	}
	return string(b)
}

// simple says whether a claim can take the short way.
func simple(t *driver.Terms) bool {
	return t.Mode == driver.Exclusive && t.Reentry == "" && t.MinHold == 0 && t.MaxHold == 0
}

func (f *fold) attempt(ctx context.Context, c *driver.Claim) ([]any, error) {
	rec := f.record.Load()
	if rec == nil || rec.record != c.Terms.Record {
		text, err := json.Marshal(c.Terms.Record)
		if err != nil {
			return nil, fmt.Errorf("redisstore: record: %w", err)
		}
		rec = &encoded{c.Terms.Record, string(text)}
		f.record.Store(rec)
	}
	op := "T"
	if c.Queue {
		op = "A"
	}
	if c.Floor > 0 {
		op += counter(c.Floor)
	}
	return f.do(ctx, &folded{op: op, name: c.Name, blob: f.id(c.Seq) + f.suffix + rec.text})
}

func (f *fold) withdraw(ctx context.Context, w driver.Withdrawal) ([]any, error) {
	return f.do(ctx, &folded{op: "W", name: w.Name, blob: f.id(w.Seq)})
}

func (f *fold) id(seq uint64) string { return f.s.sid + bytesOf(int64(seq), 6) }

// do sends an operation, alone or with others, and returns its reply.
func (f *fold) do(ctx context.Context, o *folded) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	f.mu.Lock()
	if f.flying < flights && len(f.queue) == 0 {
		f.flying++
		f.mu.Unlock()
		f.fly(ctx, []*folded{o})
		f.landed()
		return o.reply, o.err
	}
	o.done = make(chan struct{})
	f.queue = append(f.queue, o)
	f.mu.Unlock()
	select {
	case <-o.done:
		return o.reply, o.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.gone {
		return nil, fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
	}
	for i, q := range f.queue {
		if q == o {
			f.queue = append(f.queue[:i], f.queue[i+1:]...)
			break
		}
	}
	return nil, fmt.Errorf("redisstore: %w", ctx.Err()) // never sent
}

// landed lets those who wait leave, in a goroutine of their own: whoever landed
// goes on.
func (f *fold) landed() {
	f.mu.Lock()
	n := min(len(f.queue), maxFold)
	if n == 0 {
		f.flying--
		f.mu.Unlock()
		return
	}
	batch := f.queue[:n:n]
	f.queue = f.queue[n:]
	for _, o := range batch {
		o.gone = true
	}
	f.mu.Unlock()
	go func() {
		// On no caller's context: others depend on it too.
		ctx, cancel := context.WithTimeout(context.Background(), f.s.ttl)
		defer cancel()
		f.fly(ctx, batch)
		for _, o := range batch {
			close(o.done)
		}
		f.landed()
	}()
}

// fly makes one call and gives every operation its reply.
func (f *fold) fly(ctx context.Context, batch []*folded) {
	s := f.s
	args := make([]string, 0, 4+3*len(batch))
	args = append(args, s.sid, f.suffix[:7], s.marker, s.graceEnd)
	for _, o := range batch {
		args = append(args, o.op, o.name, o.blob)
	}
	replies, err := s.store.call(ctx, foldScript, s.shard, s.incarnation, s.pushes.proof(), args...)
	if err == nil && len(replies) != len(batch) {
		err = errors.Join(driver.ErrUnknown, errShort)
	}
	for i, o := range batch {
		if o.err = err; err != nil {
			continue
		}
		o.reply, _ = replies[i].([]any)
		o.err = verdict(o.reply)
		s.pushes.heard(o.err)
	}
}
