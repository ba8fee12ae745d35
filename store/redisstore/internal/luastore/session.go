// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

// session is one process's liveness in one bucket.
type session struct {
	store       *Store
	shard       string
	sid         string // the id as bytes: the shortest name of it
	ttl         time.Duration
	incarnation string
	generation  int64           // when it was opened, by the store
	graceEnd    string          // in ms, by the store
	ctx         context.Context // ends when it is closed or known to be over
	cancel      context.CancelFunc
	proof       runProof
	pushes      pushes
	batcher     batcher
	sweeper     sweeper

	mu         sync.Mutex
	claims     map[uint64]string // those that may be in the store, for Close
	tombstoned []tombstone       // those of which a mark is in the store, the oldest first
}

func (s *session) call(ctx context.Context, script *wire.Script, own ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", script.Name, driver.Inner(err))
	}
	reply, err := s.proof.call(ctx, s.store.client, script, s.store.args(s.store.settings, s.shard, s.incarnation, append([]string{s.sid}, own...)))
	if err == nil {
		err = s.store.verdict(reply)
	}
	s.pushes.heard(err)
	return reply, err
}

// KeepAlive implements driver.Session.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	reply, err := s.call(ctx, keepAliveScript, sweepPerKeepAlive)
	if err != nil {
		return driver.Renewal{}, err
	}
	r := wire.Reader{Rest: reply[1:]}
	renewal := driver.Renewal{TTL: s.ttl, Broken: r.Broken(), Clock: r.Clock()}
	if r.Number() == 1 {
		s.sweeper.sweep()
	}
	return renewal, r.Err()
}

// terms are the arguments that describe what a claim asks for.
func terms(c *driver.Claim) ([]string, error) {
	rec, err := json.Marshal(c.Terms.Record)
	if err != nil {
		return nil, fmt.Errorf("redisstore: record: %w", err)
	}
	t := c.Terms
	return []string{
		strconv.FormatUint(c.Seq, 10), c.Name, strconv.Itoa(int(t.Mode)), strconv.FormatInt(t.Weight, 10),
		strconv.FormatInt(t.Limit, 10), t.Reentry, string(rec), ms(t.MinHold), ms(t.MaxHold),
	}, nil
}

// Attempt implements driver.Session.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	s.note(c.Seq, c.Name)
	gaps := s.pushes.gaps.Load()
	out, err := s.attempt(ctx, c)
	for err == nil && hidden(&out) {
		out, err = s.attempt(ctx, c)
	}
	if out.State == driver.Queued {
		s.pushes.notePoll(c.Seq, gaps)
	}
	if err == nil && (out.State == driver.Busy || out.State == driver.Absent) {
		s.drop(c.Seq)
	}
	return out, err
}

// hidden reports whether a lock was refused although no claim holds it: dead claims are left
// in front of its queue, and each attempt removes a part of them.
func hidden(out *driver.Outcome) bool {
	return out.State == driver.Busy && len(out.Holders) == 0 && !out.Grace
}

// attempt sends the claim: in a batch with others if it is simple.
func (s *session) attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if simple(c.Terms) && !c.Lift {
		return s.batcher.attempt(ctx, c)
	}
	args, err := terms(c)
	if err != nil {
		return driver.Outcome{}, err
	}
	reply, err := s.call(ctx, attemptScript, append(args, flag(c.Queue), counter(c.Floor), flag(c.Lift))...)
	if err != nil {
		return driver.Outcome{}, err
	}
	return outcome(reply)
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// counter is a token as the scripts count.
func counter(t driver.Token) string { return strconv.FormatInt(int64(t)/driver.TokenStep, 10) }

func outcome(reply []any) (driver.Outcome, error) {
	r := wire.Reader{Rest: reply}
	switch r.Text() {
	case "GRANTED":
		return driver.Outcome{State: driver.Granted, Token: r.Token(), Remaining: r.Millis()}, r.Err()
	case "ABSENT":
		return driver.Outcome{State: driver.Absent}, nil
	case "WAITING":
		out := driver.Outcome{State: driver.Queued, Position: int(r.Number())}
		h := driver.Holder{EndsIn: r.Millis(), Age: r.Millis()}
		expand(&h, r.Text())
		out.Holders = []driver.Holder{h}
		out.PollAfter = h.EndsIn + time.Duration(min(out.Position, 8))*250*time.Millisecond // as in attempt.lua
		return out, r.Err()
	}
	out := driver.Outcome{State: driver.Busy}
	if reply[0] == "QUEUED" {
		out.State = driver.Queued
	}
	out.Position = int(r.Number())
	out.Grace = r.Number() > 0
	out.PollAfter = r.Millis()
	for _, h := range r.List() {
		out.Holders = append(out.Holders, wire.HolderOf(h))
	}
	out.Token = r.Token()
	return out, r.Err()
}

// Await implements driver.Session. The first time a claim waits after a
// subscription began, it polls: a push may have been before.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	w := s.pushes.wait(c.Seq)
	defer s.pushes.leave(c.Seq, w)
	for {
		select {
		case token := <-w.granted:
			return driver.Outcome{State: driver.Granted, Token: token}, nil
		case <-w.poll:
			out, err := s.Attempt(ctx, c)
			if err != nil || out.State != driver.Queued {
				out.Remaining = 0
				return out, err
			}
		case <-ctx.Done():
			return driver.Outcome{}, fmt.Errorf("redisstore: await: %w", ctx.Err())
		case <-s.ctx.Done():
			return driver.Outcome{}, s.pushes.why()
		}
	}
}

// Withdraw implements driver.Session.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	found, err := s.withdraw(ctx, w)
	if err == nil {
		s.drop(w.Seq)
	}
	if err == nil && w.Tombstone {
		s.tombstone(w, time.Now())
	}
	return found, err
}

// tombstone is a claim whose mark is left for Close to remove.
type tombstone struct {
	seq  uint64
	name string
	at   time.Time
}

// tombstoneKept is how long the store keeps a mark at least (sweep.lua).
const tombstoneKept = time.Hour

// tombstone notes a tombstone, and drops those of which the store keeps no mark.
func (s *session) tombstone(w driver.Withdrawal, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := 0
	for old < len(s.tombstoned) && now.Sub(s.tombstoned[old].at) > 2*tombstoneKept {
		old++
	}
	s.tombstoned = append(slices.Delete(s.tombstoned, 0, old), tombstone{w.Seq, w.Name, now})
}

func (s *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if !w.Tombstone && w.KeepFor == 0 {
		found, err := s.batcher.withdraw(ctx, w)
		if !errors.Is(err, wire.ErrFull) {
			return found, err
		}
		// batch.lua must not run then, for its attempts' sake; this one may.
	}
	reply, err := s.call(ctx, withdrawScript, strconv.FormatUint(w.Seq, 10), w.Name, ms(w.KeepFor), flag(w.Tombstone))
	if err != nil {
		return driver.WasAbsent, err
	}
	return s.removed(reply, w.Name)
}

// removed reads the reply of withdraw.lua.
func (s *session) removed(reply []any, name string) (driver.Removed, error) {
	found, err := removed(reply)
	if err == nil && more(reply) {
		go s.store.walk(s.ctx, s.store.settings, name, reply)
	}
	return found, err
}

func removed(reply []any) (driver.Removed, error) {
	r := wire.Reader{Rest: reply[1:]}
	n := r.Number()
	r.Number()
	if n < 0 || n > int64(driver.WasBroken) {
		return driver.WasAbsent, errors.Join(driver.ErrUnknown, wire.ErrShort)
	}
	return driver.Removed(n), r.Err()
}

// Reclaim implements driver.Session.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept := make([]bool, 0, len(held))
	for part := range slices.Chunk(held, maxReclaimed) {
		var args []string
		for _, h := range part {
			own, err := terms(&h.Claim)
			if err != nil {
				return nil, err
			}
			args = append(append(args, own...), counter(h.Token))
		}
		reply, err := s.call(ctx, reclaimScript, args...)
		if err != nil {
			return nil, err
		}
		r := wire.Reader{Rest: reply[1:]}
		for _, h := range part {
			yes := r.Number() == 1
			if yes {
				s.note(h.Claim.Seq, h.Claim.Name)
			}
			kept = append(kept, yes)
		}
		if err := r.Err(); err != nil {
			return nil, errors.Join(driver.ErrUnknown, err)
		}
	}
	if last {
		if _, err := s.call(ctx, reclaimScript); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// Close implements driver.Session: it ends the session, then removes what it may
// have had, so that no later call has to find out.
func (s *session) Close(ctx context.Context) error {
	s.cancel()
	s.mu.Lock()
	claims, tombstoned := s.claims, s.tombstoned
	s.claims, s.tombstoned = nil, nil
	s.mu.Unlock()
	var rest []string
	for _, b := range tombstoned {
		rest = append(rest, strconv.FormatUint(b.seq, 10), b.name)
	}
	for seq, name := range claims {
		rest = append(rest, strconv.FormatUint(seq, 10), name)
	}
	for {
		n := min(len(rest), 2*maxClosed)
		reply, err := s.call(ctx, closeScript, rest[:n]...)
		if err != nil { // the next call must name them too
			s.mu.Lock()
			s.claims, s.tombstoned = claims, tombstoned
			s.mu.Unlock()
			return err
		}
		if more(reply) {
			continue // the same claims again, for the next part of the queues behind them
		}
		rest = rest[n:]
		if len(rest) == 0 {
			return nil
		}
	}
}

// maxClosed and maxReclaimed are how many claims one call ends or puts back: well
// below a millisecond of the server.
const maxClosed, maxReclaimed = 100, 50

func (s *session) note(seq uint64, name string) {
	s.mu.Lock()
	if s.claims == nil {
		s.claims = map[uint64]string{}
	}
	s.claims[seq] = name
	s.mu.Unlock()
}

func (s *session) drop(seq uint64) {
	s.pushes.done(seq)
	s.mu.Lock()
	delete(s.claims, seq)
	s.mu.Unlock()
}

// expand reads a plain grant in its short form.
func expand(h *driver.Holder, raw string) {
	if len(raw) < 50 {
		return
	}
	copy(h.Claim.Session[:], raw[14:30])
	h.Token, h.Claim.Seq, h.Weight = driver.Token(wire.NumberOf(raw[1:8])*driver.TokenStep), uint64(wire.NumberOf(raw[30:36])), 1
	h.Record = wire.RecordOf(raw[50:])
}
