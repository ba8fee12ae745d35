// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// session is a session as the process that opened it knows it.
type session struct {
	store *Store
	id    driver.SessionID
	ttl   time.Duration
	keys  []string
	// opened is how often the session was opened, this time included.
	opened string
	// fresh is set if the server had no such session, so it has none of its claims.
	fresh bool
	// sessions begins the keys of all sessions of the shard.
	sessions string

	// ctx ends with the session, for those that wait.
	ctx context.Context
	end context.CancelCauseFunc

	claims *claims
}

// gone ends what waits, and returns the error of a session that has ended.
func (s *session) gone(op string) error {
	err := s.store.errorf("%s: session %s has ended, or the server lost it: %w", op, uuid(s.id), driver.ErrGone)
	s.end(err)
	return err
}

// Attempt implements driver.Session. A claim that is not granted is busy: there is no queue.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if what := s.store.lacks(c.Terms); what != "" {
		return driver.Outcome{}, s.store.unsupported(ctx, "attempt of a claim with "+what)
	}
	key, err := s.store.keyOf(c.Name)
	if err != nil {
		return driver.Outcome{}, err
	}
	at := time.Now()
	s.claims.send(c.Seq, key)
	out, err := s.attempt(ctx, c, key)
	s.claims.answered(c.Seq, out, err, at, c.Terms.MaxHold > 0)
	return out, err
}

func (s *session) attempt(ctx context.Context, c *driver.Claim, key string) (driver.Outcome, error) {
	reply, err := s.take(ctx, c, key)
	if err != nil {
		return driver.Outcome{}, err
	}
	r := rediscmd.Reader{Rest: reply}
	switch r.Text() {
	case "gone":
		return driver.Outcome{}, s.gone("attempt")
	case "kind":
		return driver.Outcome{}, s.store.wrongKind("attempt", c.Name, r.Text())
	case "granted":
		return driver.Outcome{State: driver.Granted, Token: driver.Token(r.Number()), Remaining: r.Millis()}, nil
	case "busy":
		holders, after := s.store.readState(r.List())
		return driver.Outcome{State: driver.Busy, Holders: holders[:min(len(holders), driver.MaxHoldersReported)], PollAfter: after}, nil
	}
	return driver.Outcome{State: driver.Absent}, nil
}

// lacks returns what a claim asks for and the format has not got, or "".
func (s *Store) lacks(t *driver.Terms) string {
	switch {
	case t.Reentry != "":
		return "ReentrantAs"
	case t.Limit > 0:
		return "a limit"
	case t.Mode == driver.Shared && s.opts.Kind != ReadWrite:
		return "readers"
	case s.opts.Kind != Lock && (t.MinHold > 0 || t.MaxHold > 0):
		return "MinHold or MaxHold"
	}
	return ""
}

// take runs the script that takes a lock.
func (s *session) take(ctx context.Context, c *driver.Claim, key string) ([]any, error) {
	record, err := json.Marshal(c.Terms.Record)
	if err != nil {
		return nil, s.store.errorf("attempt: %w", err)
	}
	holder, seq, keys := holderOf(s.id, c.Seq), strconv.FormatUint(c.Seq, 10), s.with(key)
	switch s.store.opts.Kind {
	case ReadWrite:
		side := "w"
		if c.Terms.Mode == driver.Shared {
			side = "r"
		}
		return s.store.call(ctx, "attempt", takeRWScript, keys, holder, seq, string(record), side, s.store.waking(), s.sessions)
	case Plain:
		return s.store.call(ctx, "attempt", takePlainScript, keys, holder, seq, string(record), s.sessions)
	}
	return s.store.call(ctx, "attempt", takeScript, keys, holder, seq, string(record),
		millis(c.Terms.MinHold), millis(c.Terms.MaxHold), flag(!s.store.noTokens()), s.sessions)
}

// with returns the keys of a script about a lock.
func (s *session) with(key string) []string {
	return append(append(make([]string, 0, len(s.keys)+1), s.keys...), key)
}

// Await implements driver.Session. It attempts once the subscription is confirmed, because
// the lock may have been freed before, and after each message. It returns Busy if the core has to
// poll earlier than it knew.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, s.store.errorf("await: %w", err)
	}
	key, err := s.store.keyOf(c.Name)
	if err != nil {
		return driver.Outcome{}, err
	}
	channel, text := s.store.channelOf(key)
	if channel == "" { // nothing is published
		return driver.Outcome{State: driver.Busy, PollAfter: s.ttl}, nil
	}
	hints, leave := s.store.subscriptions.join(channel, text)
	defer leave()
	for {
		select {
		case <-hints:
			out, err := s.Attempt(ctx, c)
			if err != nil || out.State != driver.Busy || endsSooner(ctx, out.PollAfter) {
				out.Remaining = 0
				return out, err
			}
		case <-ctx.Done():
			return driver.Outcome{}, s.store.errorf("await: %w", ctx.Err())
		case <-s.ctx.Done():
			return driver.Outcome{}, context.Cause(s.ctx)
		}
	}
}

// endsSooner reports whether a lock that is busy ends well before the wait: it is kept for less
// time than was left of its lease, and no message comes at its end. An eighth of the wait is not
// worth another attempt, because the core waits for up to a tenth longer than the lease.
func endsSooner(ctx context.Context, after time.Duration) bool {
	end, bounded := ctx.Deadline()
	if !bounded || after <= 0 {
		return false
	}
	rest := time.Until(end)
	return after < rest-rest/8
}

// Withdraw implements driver.Session. It does not ask whether the session lives if the field is
// still this claim's: no other claim had the lock in between.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	key, err := s.store.keyOf(w.Name)
	if err != nil {
		return driver.WasAbsent, err
	}
	if w.KeepFor > 0 && s.store.opts.Kind != Lock {
		return driver.WasAbsent, s.store.unsupported(ctx, "keeping a lock after its withdrawal")
	}
	// Await attempts by itself, so the core cannot know that an attempt may be under way.
	holds, doubted := s.claims.leave(w.Seq)
	opened := ""
	if holds {
		opened = s.opened
	}
	reply, err := s.store.call(ctx, "withdraw", releaseScript, s.with(key), holderOf(s.id, w.Seq), strconv.FormatUint(w.Seq, 10),
		millis(w.KeepFor), flag(w.Tombstone || doubted), s.store.waking(), strconv.Itoa(int(s.store.opts.Kind)), opened)
	if err != nil {
		return driver.WasAbsent, err
	}
	s.claims.drop(w.Seq)
	switch text, _ := reply[0].(string); text {
	case "granted":
		return driver.WasGranted, nil
	case "broken":
		return driver.WasBroken, nil
	case "gone":
		return driver.WasAbsent, s.gone("withdraw")
	}
	return driver.WasAbsent, nil
}

// Reclaim implements driver.Session. It only confirms what is there: after a data loss there
// is no grace in which anything could be put back. What is there is known from then on, or the next
// renewal would take it for left over.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, _ bool) ([]bool, error) {
	kept := make([]bool, len(held))
	for i, h := range held {
		key, err := s.store.keyOf(h.Claim.Name)
		if err != nil {
			return nil, err
		}
		at := time.Now()
		holders, _, err := s.store.inspect(ctx, h.Claim.Name)
		if err != nil {
			return nil, err
		}
		mine := driver.ClaimID{Session: s.id, Seq: h.Claim.Seq}
		found := slices.IndexFunc(holders, func(h driver.Holder) bool { return h.Claim == mine && !h.Kept })
		if found < 0 {
			continue
		}
		kept[i] = true
		var until time.Time
		if h.Claim.Terms.MaxHold > 0 {
			until = at.Add(holders[found].EndsIn)
		}
		s.claims.confirm(h.Claim.Seq, key, until)
	}
	return kept, nil
}

// Close implements driver.Session. The first script ends the session, and each frees some of
// its locks.
func (s *session) Close(ctx context.Context) error {
	for {
		reply, err := s.store.call(ctx, "close", closeScript, s.keys, uuid(s.id), strconv.Itoa(perScript), s.store.waking())
		if err != nil {
			return err
		}
		r := rediscmd.Reader{Rest: reply}
		if r.Number() == 0 {
			_ = s.gone("close")
			return nil
		}
	}
}

// Fresh reports whether the server had no such session when this value was opened, so it has none of its claims.
func Fresh(ses driver.Session) bool {
	s, ok := ses.(*session)
	return ok && s.fresh
}

// Drop makes a session of a Store take a claim for withdrawn that may be on the server: the next
// renewal frees it there. The claim must not be attempted again.
func Drop(ses driver.Session, seq uint64) {
	if s, ok := ses.(*session); ok {
		s.claims.drop(seq)
	}
}
