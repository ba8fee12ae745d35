// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

// batcher makes one call of many operations. While fewer than two calls are in flight,
// an operation is sent at once and alone. Operations that come later are queued, and are
// sent together when one of the calls has been answered. So no operation waits for
// others, and under load the server runs one script for many claims:
//
//	Attempt ───────────────────────── EVALSHA batch.lua (1 operation) ────▶
//	Withdraw ┐
//	Attempt  ┼──▶ queue ──▶ sender ── EVALSHA batch.lua (12 operations) ──▶
//	Attempt  ┘
//
// A caller waits for its operation or for its context, whichever ends first. An
// operation that was sent and not answered has an unknown outcome.
type batcher struct {
	s      *session
	common string // arguments that only claims that are not simple need
	tail   string // generation and incarnation, as every claim of the session has them
	parts  sync.Pool

	mu       sync.Mutex
	records  records
	queue    []*operation
	names    map[string]struct{} // of the attempts of one call, used again
	seqs     map[uint64]struct{} // of its withdrawals
	conns    []wire.Conn         // connections that are free
	inFlight int                 // connections in use
	work     sync.Cond
	senders  int // goroutines in sendLoop
	idle     int // senders that wait for work
}

// operation is one attempt or withdrawal in a batch.
type operation struct {
	op     byte // as batch.lua knows them
	name   string
	seq    uint64
	record *encoded // of an attempt
	floor  int64    // counter not to fall below, or 0
	sent   bool     // left the queue with a batch
	done   chan struct{}

	counter int64 // of an attempt that was simple
	reply   []any // of what was not
	err     error
}

func (f *batcher) init(s *session) {
	f.s = s
	incarnation, _ := strconv.ParseInt(s.incarnation, 10, 64)
	f.tail = wire.BytesOf(s.generation, 7) + wire.BytesOf(incarnation, 7)
	f.common = s.store.settings.String() + "\x00" + s.incarnation + "\x00" + s.store.publish + "\x00" + s.store.settings.graceMillis() + "\x00"
	f.work.L = &f.mu
	f.names, f.seqs = map[string]struct{}{}, map[uint64]struct{}{}
	context.AfterFunc(s.ctx, f.close)
	f.parts.New = func() any { return &operation{done: make(chan struct{}, 1)} }
}

// simple reports whether a claim can take the fast path.
func simple(t *driver.Terms) bool {
	return t.Mode == driver.Exclusive && t.Weight == 1 && t.Limit == 0 && t.Reentry == "" && t.MinHold == 0 && t.MaxHold == 0
}

func (f *batcher) attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	record, err := f.encode(c.Terms.Record)
	if err != nil {
		return driver.Outcome{}, err
	}
	o := f.part('T', c.Name, c.Seq)
	o.record, o.floor = record, int64(c.Floor)/driver.TokenStep
	if c.Queue {
		o.op = 'A'
	}
	if err := f.do(ctx, o); err != nil {
		return driver.Outcome{}, err
	}
	defer f.parts.Put(o)
	if o.reply == nil {
		return driver.Outcome{State: driver.Granted, Token: driver.Token(o.counter * driver.TokenStep)}, nil
	}
	return outcome(o.reply)
}

func (f *batcher) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	o := f.part('W', w.Name, w.Seq)
	if err := f.do(ctx, o); err != nil {
		return driver.WasAbsent, err
	}
	defer f.parts.Put(o)
	if o.reply == nil {
		return driver.WasGranted, nil
	}
	return f.s.removed(o.reply, w.Name)
}

func (f *batcher) part(op byte, name string, seq uint64) *operation {
	o := f.parts.Get().(*operation)
	*o = operation{op: op, name: name, seq: seq, done: o.done}
	return o
}

// do sends an operation, alone or with others, and waits for its answer.
func (f *batcher) do(ctx context.Context, o *operation) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redisstore: %w", driver.Inner(err))
	}
	f.mu.Lock()
	if conn := f.freeConnLocked(); conn != nil {
		f.mu.Unlock()
		f.deliver(ctx, conn, []*operation{o})
		f.mu.Lock()
		defer f.mu.Unlock()
		f.releaseLocked(conn)
		return o.err
	}
	f.queue = append(f.queue, o)
	f.mu.Unlock()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.sent {
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
	}
	if i := slices.Index(f.queue, o); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
	}
	return fmt.Errorf("redisstore: %w", ctx.Err()) // never sent
}

// deliver makes one call and gives every operation its answer.
func (f *batcher) deliver(ctx context.Context, conn wire.Conn, batch []*operation) {
	reply, err := f.s.proof.call(ctx, conn, batchScript, f.args(batch))
	if err == nil {
		err = f.read(batch, reply)
	}
	if err != nil {
		for _, o := range batch {
			o.err = err
		}
	}
}

// read takes a reply of batch.lua apart.
func (f *batcher) read(batch []*operation, reply []any) error {
	r := wire.Reader{Rest: reply}
	counter := r.Number()
	for len(r.Rest) > 0 {
		i := r.Number()
		if i < 1 || i > int64(len(batch)) {
			return errors.Join(driver.ErrUnknown, wire.ErrShort)
		}
		o := batch[i-1]
		o.reply = r.List()
		o.err = f.s.store.verdict(o.reply)
		f.s.pushes.heard(o.err)
	}
	if err := r.Err(); err != nil {
		return errors.Join(driver.ErrUnknown, err)
	}
	for _, o := range batch {
		if o.reply == nil && o.op != 'W' {
			o.counter = counter
			counter++
		}
	}
	return nil
}

// args are the arguments of batch.lua.
func (f *batcher) args(batch []*operation) []string {
	s, records := f.s, pack(batch)
	args := make([]string, 8, 9+len(batch)+len(records.more))
	ops, seqs := make([]byte, 0, len(batch)), make([]byte, 0, 6*len(batch))
	floors, any := make([]byte, 0, 7*len(batch)), false
	for _, o := range batch {
		ops = append(ops, o.op)
		seqs = append(seqs, byte(o.seq>>40), byte(o.seq>>32), byte(o.seq>>24), byte(o.seq>>16), byte(o.seq>>8), byte(o.seq))
		floors, any = append(floors, wire.BytesOf(o.floor, 7)...), any || o.floor > 0
		args = append(args, o.name)
	}
	if !any {
		floors = nil
	}
	if records.more != nil {
		args = append(append(args, string(records.index)), records.more...)
	}
	copy(args, []string{f.common, s.sid, f.tail, s.graceEnd, records.first, string(seqs), string(ops), string(floors)})
	return args
}
