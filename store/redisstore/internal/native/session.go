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
	ttl         time.Duration
	incarnation string
	generation  int64           // when it was opened, by the store
	fresh       bool            // it was not open before: the store knows no claim of it
	tail        string          // generation and incarnation, as every claim of the session has them
	ctx         context.Context // ends when it is closed or known to be over
	cancel      context.CancelFunc
	proof       runProof
	pushes      pushes
	notices     notices
	records     records
	claims      *claims // those of an earlier session of the same id, too
	fast        fast
	alive       keepAlive
	votes       votes
	expiring    atomic.Bool
	refilling   atomic.Bool
	sweeper     sweeper
}

// call runs a script for names of the session's shard.
func (s *session) call(ctx context.Context, script *rediscmd.Script, names []string, own ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", script.Name, driver.Inner(err))
	}
	args := s.store.args(s.store.layout, s.base, s.incarnation, append([]string{s.sid}, own...))
	reply, err := s.proof.call(ctx, script, names, args)
	if err == nil {
		err = s.store.verdict(reply)
	}
	s.pushes.heard(err)
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
	gaps := s.pushes.gaps.Load()
	expected := c.Watch && s.notices.expect(c.Seq, c.Name)
	out, alone, err := s.attempt(ctx, c, record.text)
	if expected && !alone {
		s.notices.unwatch(c.Seq)
	}
	switch {
	case out.State == driver.Queued:
		s.pushes.notePoll(c.Seq, gaps)
	case out.State == driver.Granted && c.Watch && err == nil:
		s.notices.watch(c.Seq, c.Name)
	}
	if err == nil && (out.State == driver.Busy || out.State == driver.Absent) {
		s.drop(c.Seq)
	}
	return out, err
}

// attempt sends the claim until no dead claims or grants hide that it could be granted. alone is
// set if it was granted when no other claim was there.
func (s *session) attempt(ctx context.Context, c *driver.Claim, record string) (out driver.Outcome, alone bool, err error) {
	element, plain := "", s.fast.may(c)
	if plain {
		element = s.pushedNow(c.Seq, record)
	}
	known, was := s.claims.begin(c.Seq, claim{name: c.Name, record: record, element: element, lingers: c.Terms.Linger > 0, holds: c.Terms.MinHold > 0})
	element, ticket := known.element, known.ticket
	if plain && !was {
		var got result
		ticket, got, err = s.fast.attempt(ctx, c, element)
		switch {
		case err != nil:
			return driver.Outcome{}, false, err
		case got == granted:
			return driver.Outcome{State: driver.Granted, Token: driver.Token(ticket * driver.TokenStep)}, true, nil
		case got == undone:
			element = ""
		}
	}
	if !was && s.votes.may(c) {
		if out, err := s.votes.acquire(ctx, c, record); err != nil || out.State == driver.Granted {
			return out, false, err
		}
	}
	switch {
	case element != "":
	case was || !s.fresh:
		element = "?" // it may be in the store: its answer was lost, or it is queued
	}
	for {
		reply, err := s.call(ctx, attemptScript, []string{c.Name}, append(terms(c, record), flag(c.Queue), counter(c.Floor), flag(c.Lift),
			element, strconv.FormatInt(ticket, 10), s.tail)...)
		if errors.Is(err, driver.ErrUnknown) {
			s.claims.doubt(c.Seq)
		}
		if err != nil {
			return driver.Outcome{}, false, err
		}
		out, own, err := outcome(reply)
		if err != nil {
			return out, false, err
		}
		switch out.State {
		case driver.Granted:
			s.fast.calm.Store(true)
			s.fast.checked.Store(unknown)
			s.claims.stands(c.Seq, int64(out.Token)/driver.TokenStep, s.element(own, c.Seq, record))
		case driver.Queued:
			s.store.contended.waited(c.Name, out.Holders)
			s.claims.stands(c.Seq, 0, own)
		}
		if out.State == driver.Granted || out.State == driver.Absent || out.Grace || !more(reply) {
			return out, false, nil
		}
		element = cmp.Or(own, "?")
	}
}

// simple reports whether a claim has a short form.
func simple(t *driver.Terms) bool {
	return t.Mode == driver.Exclusive && t.Weight == 1 && t.Limit == 0 && t.Reentry == "" && t.MinHold == 0 && t.MaxHold == 0
}

// element is a claim in its short form. head is its letter and since when it is granted,
// or empty for a claim that has no short form.
func (s *session) element(head string, seq uint64, record string) string {
	if len(head) != 7 {
		return ""
	}
	var short [128]byte
	return s.claimText(append(short[:0], head...), seq, record)
}

// pushedNow is the element of a claim that plain commands push, since when by the estimate of
// the server's clock.
func (s *session) pushedNow(seq uint64, record string) string {
	var short [128]byte
	return s.claimText(rediscmd.AppendBytes(append(short[:0], 'X'), s.alive.earliest(), 6), seq, record)
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

// Await implements driver.Session. The first time a claim waits after a
// subscription began, it polls: a push may have been before.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	w := s.pushes.wait(c.Seq)
	defer s.pushes.leave(c.Seq, w)
	for {
		select {
		case p := <-w.granted:
			s.claims.pushed(s, c.Seq, p)
			if c.Watch {
				s.notices.watch(c.Seq, c.Name)
			}
			return driver.Outcome{State: driver.Granted, Token: p.token}, nil
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
	return found, err
}

func (s *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	known := s.claims.get(w.Seq)
	if w.Tombstone = w.Tombstone || known.doubted; w.Tombstone {
		s.claims.tombstoned(w, s.alive.latest())
	}
	if s.fast.mayRelease(w, known) {
		if removed, err := s.fast.release(ctx, w.Name, known); err != nil || removed {
			return driver.WasGranted, err
		}
	}
	if s.votes.mayRelease(w, known) {
		if removed, err := s.votes.release(ctx, w); err != nil || removed {
			return driver.WasGranted, err
		}
	}
	reply, err := s.call(ctx, withdrawScript, []string{w.Name}, strconv.FormatUint(w.Seq, 10), w.Name, ms(w.KeepFor), flag(w.Tombstone),
		known.element, s.tail)
	if err != nil {
		return driver.WasAbsent, err
	}
	if w.KeepFor > 0 || known.holds {
		s.sweeper.kept.Add(1)
	}
	return s.removed(reply, w.Name)
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
				s.claims.begin(h.Claim.Seq, claim{name: h.Claim.Name, holds: h.Claim.Terms.MinHold > 0})
				s.claims.stands(h.Claim.Seq, int64(h.Token)/driver.TokenStep, "")
				if h.Claim.Watch {
					s.notices.watch(h.Claim.Seq, h.Claim.Name)
				}
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
	err := s.close(ctx)
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.store.known.CompareAndDelete(s.sid, s)
		return err
	}
	// The process may try again, or open the session again to close that. If it gives up, nothing comes after.
	time.AfterFunc(knownFor, func() { s.store.known.CompareAndDelete(s.sid, s) })
	return err
}

// knownFor is how long the claims of a session are known that could not be closed: longer than a process tries.
const knownFor = 2 * time.Minute

func (s *session) close(ctx context.Context) error {
	s.cancel()
	type ended struct{ seq, name, element string }
	var rest []ended
	for _, b := range s.claims.old(math.MaxInt64, math.MaxInt) {
		rest = append(rest, ended{strconv.FormatUint(b.seq, 10), b.name, ""})
	}
	for seq, c := range s.claims.all() {
		rest = append(rest, ended{strconv.FormatUint(seq, 10), c.name, c.element})
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
	s.pushes.heard(fmt.Errorf("redisstore: the session was opened again: %w", driver.ErrReset))
}

func (s *session) drop(seq uint64) {
	s.pushes.done(seq)
	s.claims.drop(seq) // before the watch, which a claim that is not noted does not get
	s.notices.unwatch(seq)
}
