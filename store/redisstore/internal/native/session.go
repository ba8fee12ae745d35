// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// session is one process's liveness in one bucket.
type session struct {
	store       *Store
	shard       string
	base        string // key of the bucket
	sid         string // the id as bytes: the shortest name of it
	channel     string // of its pushes
	ttl         time.Duration
	incarnation string
	generation  int64            // when it was opened, by the store
	fresh       bool             // it was not open before: the store knows no claim of it
	tail        string           // generation and incarnation, as every claim of the session has them
	wanted      func(seq uint64) // of the process: another claim waits behind one of its grants
	ctx         context.Context  // ends when it is closed or known to be over
	cancel      context.CancelFunc
	claims      *claims // those of an earlier session of the same id, too
	records     records
	proof       runProof
	plain       plain
	batcher     batcher
	alive       keepAlive
	sweeper     sweeper
	expiring    atomic.Bool
	refilling   atomic.Bool
}

// call runs a script for names of the session's shard.
func (s *session) call(ctx context.Context, script *rediscmd.Script, names []string, own ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", script.Name, err)
	}
	args := s.store.args(s.store.layout, s.base, s.incarnation, append([]string{s.sid}, own...))
	reply, err := s.proof.call(ctx, script, names, args)
	if err == nil {
		err = s.store.verdict(reply)
	}
	s.heard(err)
	return reply, err
}

// terms are the arguments that describe what a claim asks for.
func terms(c *driver.Claim, record string) []string {
	t := c.Terms
	return []string{
		strconv.FormatUint(c.Seq, 10), c.Name, strconv.Itoa(int(t.Mode)), strconv.FormatInt(t.Weight, 10),
		strconv.FormatInt(t.Limit, 10), t.Reentry, record, ms(t.MinHold), ms(t.MaxHold),
	}
}

// Attempt implements driver.Session.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	record, err := s.records.encode(c.Terms)
	if err != nil {
		return driver.Outcome{}, err
	}
	first := &claim{seq: c.Seq, name: c.Name, record: record.text, voted: c.Floor > 0, lingers: c.Terms.Linger > 0, holds: c.Terms.MinHold > 0}
	operation := s.plain.mayAcquire(c)
	if operation {
		first.element = s.pushedNow(c, record.text)
	}
	k, was, gaps := s.claims.begin(first)
	expected := c.Watch && s.expect(k)
	out, alone, err := driver.Outcome{}, false, error(nil)
	if operation && was == unsent {
		out, err = s.acquire(ctx, c, k)
		alone = out.State == driver.Granted && err == nil
	}
	if err == nil && !alone {
		out, err = s.attempt(ctx, c, k, was)
	}
	switch {
	case errors.Is(err, driver.ErrUnknown):
		s.claims.doubt(k)
	case err != nil:
	case out.State == driver.Queued:
		s.claims.note(k, func(k *claim) { k.polled = gaps })
	case out.State == driver.Busy || out.State == driver.Absent:
		s.claims.drop(c.Seq)
	}
	if expected && !alone {
		s.claims.note(k, func(k *claim) { k.watched = false })
	}
	if c.Watch && err == nil && out.State == driver.Granted {
		s.watch(k)
	}
	return out, err
}

// acquire sends a claim that was never sent before, for a lock that should be free. If the outcome is not that it was granted, a
// script has to decide.
func (s *session) acquire(ctx context.Context, c *driver.Claim, k *claim) (out driver.Outcome, err error) {
	o := newOperation()
	o.name, o.element, o.vote, o.floor = c.Name, k.element, c.Floor > 0, int64(c.Floor)/driver.TokenStep
	if err := s.batcher.do(ctx, o); err != nil {
		return out, err
	}
	switch o.result {
	case isGranted:
		out = driver.Outcome{State: driver.Granted, Token: driver.Token(o.ticket * driver.TokenStep)}
		s.claims.stands(k, o.ticket, o.element)
	case undone:
		s.claims.note(k, func(k *claim) { k.element = "" })
	default:
		s.claims.note(k, func(k *claim) { k.ticket = o.ticket })
	}
	o.free()
	return out, nil
}

// attempt has a script decide about a claim, until no dead claims or grants hide that it could be granted.
func (s *session) attempt(ctx context.Context, c *driver.Claim, k *claim, was state) (driver.Outcome, error) {
	known := s.claims.get(c.Seq)
	element := known.element
	if element == "" && (was != unsent || !s.fresh) {
		element = "?" // it may be in the store: its answer was lost, or it is queued
	}
	for {
		reply, err := s.call(ctx, attemptScript, []string{c.Name}, append(terms(c, k.record), flag(c.Queue), counter(c.Floor), flag(c.Lift),
			element, strconv.FormatInt(known.ticket, 10), s.tail)...)
		if err != nil {
			return driver.Outcome{}, err
		}
		out, own, err := outcome(reply)
		if err != nil {
			return out, err
		}
		switch out.State {
		case driver.Granted:
			s.plain.calm.Store(true)
			s.plain.checked.Store(unknown)
			s.claims.stands(k, int64(out.Token)/driver.TokenStep, s.element(own, c.Seq, k.record))
		case driver.Queued:
			s.store.contended.waited(c.Name, out.Holders)
			s.claims.note(k, func(k *claim) { k.state, k.ticket, k.element = queued, 0, own })
		}
		if out.State == driver.Granted || out.State == driver.Absent || out.Grace || !more(reply) {
			return out, nil
		}
		element = cmp.Or(own, "?")
	}
}

// outcome reads the reply of attempt.lua. element is that of a claim that is queued; of a grant
// that plain commands may remove it is the beginning.
func outcome(reply []any) (out driver.Outcome, element string, err error) {
	r := rediscmd.Reader{Rest: reply}
	switch r.Text() {
	case "GRANTED":
		out = driver.Outcome{State: driver.Granted, Token: r.Token(), Remaining: r.Millis()}
		element = r.Text()
		return out, element, r.Err()
	case "ABSENT":
		return driver.Outcome{State: driver.Absent}, "", nil
	case "QUEUED":
		out.State = driver.Queued
	default:
		out.State = driver.Busy
	}
	out.Position = int(r.Number())
	out.Grace = r.Number() > 0
	out.PollAfter = r.Millis()
	for _, h := range r.List() {
		out.Holders = append(out.Holders, rediscmd.HolderOf(h))
	}
	out.Token = r.Token()
	element = r.Text()
	r.Number()
	return out, element, r.Err()
}

// element is the element of a grant that a script can find by its value. head is its letter and since when it is granted if it
// has a short form, else all of it, or empty.
func (s *session) element(head string, seq uint64, record string) string {
	if len(head) != 7 {
		return head
	}
	var short [128]byte
	return s.claimText(append(short[:0], head...), seq, record)
}

// pushedNow is the element of a claim that an operation pushes, since when by the estimate of
// the server's clock. A vote is pushed by a script, with its own number, whatever stands before it.
func (s *session) pushedNow(c *driver.Claim, record string) string {
	var short [128]byte
	letter := byte('X')
	if c.Floor > 0 {
		letter = 'G'
	}
	return s.claimText(rediscmd.AppendBytes(append(short[:0], letter), s.alive.earliest(), 6), c.Seq, record)
}

// claimText is a claim behind its head.
func (s *session) claimText(head []byte, seq uint64, record string) string {
	b := rediscmd.AppendBytes(append(head, s.sid...), int64(seq), 6)
	return string(append(append(b, s.tail...), record...))
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// counter is a token as the scripts count.
func counter(t driver.Token) string { return strconv.FormatInt(int64(t)/driver.TokenStep, 10) }

// Withdraw implements driver.Session.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	known := s.claims.get(w.Seq)
	if w.Tombstone = w.Tombstone || known.late; w.Tombstone {
		s.claims.tombstoned(w, s.alive.latest())
	}
	if s.plain.mayRelease(w, known) {
		if gone, err := s.release(ctx, w.Name, known); err != nil || gone {
			if err == nil {
				s.claims.drop(w.Seq)
			}
			return driver.WasGranted, err
		}
	}
	reply, err := s.call(ctx, withdrawScript, []string{w.Name}, strconv.FormatUint(w.Seq, 10), w.Name, ms(w.KeepFor), flag(w.Tombstone), known.element, s.tail)
	if err != nil {
		return driver.WasAbsent, err
	}
	if w.KeepFor > 0 || known.holds {
		s.sweeper.kept.Add(1)
	}
	found, err := s.removed(reply, w.Name)
	if err == nil {
		s.claims.drop(w.Seq)
	}
	return found, err
}

// release removes a grant, and reports whether it was there. If it was not, a script has to
// find out why.
func (s *session) release(ctx context.Context, name string, c claim) (bool, error) {
	o := newOperation()
	o.release, o.vote, o.name, o.element, o.ticket = true, c.voted, name, c.element, c.ticket
	if err := s.batcher.do(ctx, o); err != nil {
		// A script is rejected while the slot moves; plain commands for one key pass. Only scripts remove a vote.
		if !o.sent || c.voted || !moves(err) || ctx.Err() != nil {
			return false, err
		}
		o = &operation{release: true, name: name, element: c.element, ticket: c.ticket}
		if err := s.plain.release(ctx, o, &rediscmd.Commands{}); err != nil {
			return false, s.store.explain(err)
		}
	}
	got := o.result
	if o.done != nil {
		o.free()
	}
	if got != released && !c.lingers { // one that lingers was waited for because it was not released
		s.store.contended.add(name)
	}
	if got == passing {
		s.wake(ctx, name)
	}
	return got == released || got == passing, nil
}

// wake grants to the next in the queue. If that fails, the next finds out with its poll.
func (s *session) wake(ctx context.Context, name string) {
	reply, err := s.call(ctx, wakeScript, []string{name}, name)
	if err == nil && more(reply) {
		go s.store.walk(s.ctx, s.store.layout, name, reply)
	}
}

// removed reads the reply of withdraw.lua.
func (s *session) removed(reply []any, name string) (driver.Removed, error) {
	found, err := removed(reply)
	if err == nil && more(reply) {
		go s.store.walk(s.ctx, s.store.layout, name, reply)
	}
	return found, err
}

func removed(reply []any) (driver.Removed, error) {
	r := rediscmd.Reader{Rest: reply[1:]}
	n := r.Number()
	r.Number()
	if n < 0 || n > int64(driver.WasBroken) {
		return driver.WasAbsent, errors.Join(driver.ErrUnknown, rediscmd.ErrShort)
	}
	return driver.Removed(n), r.Err()
}

// Reclaim implements driver.Session.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept := make([]bool, 0, len(held))
	for part := range slices.Chunk(held, maxReclaimed) {
		var args, names []string
		for _, h := range part {
			record, err := s.records.encode(h.Claim.Terms)
			if err != nil {
				return nil, err
			}
			args = append(append(args, terms(&h.Claim, record.text)...), counter(h.Token))
			names = append(names, h.Claim.Name)
		}
		reply, err := s.reclaim(ctx, names, args)
		if err != nil {
			return nil, err
		}
		r := rediscmd.Reader{Rest: reply[1:]}
		for _, h := range part {
			yes := r.Number() == 1
			if yes {
				s.reclaimed(&h)
			}
			kept = append(kept, yes)
		}
		if err := r.Err(); err != nil {
			return nil, errors.Join(driver.ErrUnknown, err)
		}
	}
	if last {
		if _, err := s.call(ctx, reclaimScript, nil); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// reclaimed notes that a grant was put back.
func (s *session) reclaimed(h *driver.Held) {
	k, _, _ := s.claims.begin(&claim{seq: h.Claim.Seq, name: h.Claim.Name, holds: h.Claim.Terms.MinHold > 0})
	s.claims.stands(k, int64(h.Token)/driver.TokenStep, "")
	if h.Claim.Watch {
		s.watch(k)
	}
}

// reclaim puts grants back. A claim in the way that may be removed in a moment is waited for.
func (s *session) reclaim(ctx context.Context, names, args []string) (reply []any, err error) {
	for tries := 0; ; tries++ {
		reply, err = s.call(ctx, reclaimScript, names, args...)
		if err != nil || tries == reclaimTries || s.store.switches.eager || !slices.Contains(reply, any(int64(2))) {
			return reply, err
		}
		select {
		case <-ctx.Done():
			return reply, nil
		case <-time.After(reclaimPause):
		}
	}
}

const (
	// reclaimTries and reclaimPause are how long a reclaim waits for a claim in its way: longer
	// than a process needs to see that the store was reset.
	reclaimTries = 10
	reclaimPause = 50 * time.Millisecond
)

// Close implements driver.Session: it ends the session, then removes what it may
// have had, so that no later call has to find out.
func (s *session) Close(ctx context.Context) error {
	s.cancel()
	type ended struct{ seq, name, element string }
	var rest []ended
	for _, b := range s.claims.old(math.MaxInt64, math.MaxInt) {
		rest = append(rest, ended{strconv.FormatUint(b.seq, 10), b.name, ""})
	}
	for _, c := range s.claims.all() {
		rest = append(rest, ended{strconv.FormatUint(c.seq, 10), c.name, c.element})
	}
	for {
		n := min(len(rest), maxClosed)
		args, names := []string{flag(n == len(rest))}, []string(nil)
		for _, e := range rest[:n] {
			args, names = append(args, e.seq, e.name, e.element), append(names, e.name)
		}
		reply, err := s.call(ctx, closeScript, names, args...)
		if err != nil {
			return err
		}
		if more(reply) {
			continue // the same claims again, for the next part of the queues behind them
		}
		rest = rest[n:]
		if len(rest) == 0 {
			s.sweeper.last(ctx)
			return nil
		}
	}
}

// maxClosed and maxReclaimed are how many claims one call ends or puts back: well
// below a millisecond of the server.
const maxClosed, maxReclaimed = 100, 50

// replaced ends what runs for a session that its process has opened again: that process closes only
// the new one. Claims that wait come back with the new one, as after a data loss.
func (s *session) replaced() {
	s.heard(fmt.Errorf("redisstore: the session was opened again: %w", driver.ErrReset))
}
