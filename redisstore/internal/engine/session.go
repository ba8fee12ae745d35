// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// session is one process's liveness in one bucket.
type session struct {
	store       *Store
	shard       string
	sid         string // the id as bytes: the shortest name of it
	ttl         time.Duration
	incarnation string
	epoch       int64           // when it was opened, by the store
	graceEnd    string          // in ms, by the store
	ctx         context.Context // ends when it is closed or known to be over
	cancel      context.CancelFunc
	life        life
	pushes      pushes
	fold        fold

	mu     sync.Mutex
	claims map[uint64]string // those that may be in the store, for Close
}

func (s *session) call(ctx context.Context, script *Script, own ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", script.Name, err)
	}
	reply, err := s.life.call(ctx, s.store.client, script, s.store.args(s.shard, s.incarnation, append([]string{s.sid}, own...)))
	if err == nil {
		err = verdict(reply)
	}
	s.pushes.heard(err)
	return reply, err
}

// KeepAlive implements driver.Session.
func (s *session) KeepAlive(ctx context.Context) (driver.Life, error) {
	reply, err := s.call(ctx, keepAliveScript)
	if err != nil {
		return driver.Life{}, err
	}
	r := reader{reply[1:]}
	return driver.Life{TTL: s.ttl, Broken: r.broken()}, r.err()
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
	if out.State == driver.Queued {
		s.pushes.looks(c.Seq, gaps)
	}
	if err == nil && (out.State == driver.Busy || out.State == driver.Absent) {
		s.forget(c.Seq)
	}
	return out, err
}

// attempt sends the claim: folded with others if it is simple.
func (s *session) attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if simple(c.Terms) {
		return s.fold.attempt(ctx, c)
	}
	args, err := terms(c)
	if err != nil {
		return driver.Outcome{}, err
	}
	queue := "0"
	if c.Queue {
		queue = "1"
	}
	reply, err := s.call(ctx, attemptScript, append(args, queue)...)
	if err != nil {
		return driver.Outcome{}, err
	}
	return outcome(reply)
}

func outcome(reply []any) (driver.Outcome, error) {
	r := reader{reply}
	switch r.text() {
	case "GRANTED":
		return driver.Outcome{State: driver.Granted, Token: r.token(), Remaining: r.millis()}, r.err()
	case "ABSENT":
		return driver.Outcome{State: driver.Absent}, nil
	case "WAITING":
		out := driver.Outcome{State: driver.Queued, Place: int(r.number())}
		h := driver.Holder{EndsIn: r.millis(), Age: r.millis()}
		expand(&h, r.text())
		out.Holders = []driver.Holder{h}
		out.LookAfter = h.EndsIn + time.Duration(min(out.Place, 8))*250*time.Millisecond // as in attempt.lua
		return out, r.err()
	}
	out := driver.Outcome{State: driver.Busy}
	if reply[0] == "QUEUED" {
		out.State = driver.Queued
	}
	out.Place = int(r.number())
	out.Grace = r.number() > 0
	out.LookAfter = r.millis()
	for _, h := range r.list() {
		out.Holders = append(out.Holders, holder(h))
	}
	return out, r.err()
}

// Await implements driver.Session. The first time a claim waits after a
// subscription began, it looks: a push may have been before.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	w := s.pushes.wait(c.Seq)
	defer s.pushes.leave(c.Seq, w)
	for {
		select {
		case token := <-w.granted:
			return driver.Outcome{State: driver.Granted, Token: token}, nil
		case <-w.look:
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
	if err == nil && !w.Bury { // its mark is left for Close to remove
		s.forget(w.Seq)
	}
	return found, err
}

func (s *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if !w.Bury && w.KeepFor == 0 {
		return s.fold.withdraw(ctx, w)
	}
	bury := "0"
	if w.Bury {
		bury = "1"
	}
	reply, err := s.call(ctx, withdrawScript, strconv.FormatUint(w.Seq, 10), w.Name, ms(w.KeepFor), bury)
	if err != nil {
		return driver.WasAbsent, err
	}
	return removed(reply)
}

func removed(reply []any) (driver.Removed, error) {
	r := reader{reply[1:]}
	return driver.Removed(r.number()), r.err()
}

// Reclaim implements driver.Session.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept := make([]bool, len(held))
	for i, h := range held {
		args, err := terms(&h.Claim)
		if err != nil {
			return nil, err
		}
		reply, err := s.call(ctx, reclaimScript, append(args, strconv.FormatInt(int64(h.Token)/driver.TokenStep, 10))...)
		if err != nil {
			return nil, err
		}
		r := reader{reply[1:]}
		if kept[i] = r.number() == 1; kept[i] {
			s.note(h.Claim.Seq, h.Claim.Name)
		}
	}
	if last {
		if _, err := s.call(ctx, reclaimScript, "0", ""); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// Close implements driver.Session: it ends the session, then removes what it may
// have had, so that nobody has to find out by looking.
func (s *session) Close(ctx context.Context) error {
	s.cancel()
	s.mu.Lock()
	claims := s.claims
	s.claims = nil
	s.mu.Unlock()
	if len(claims) == 0 {
		claims = map[uint64]string{0: ""}
	}
	for seq, name := range claims {
		_, err := s.call(ctx, closeScript, strconv.FormatUint(seq, 10), name)
		if errors.Is(err, driver.ErrForgotten) {
			return nil // it ended with the memory
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) note(seq uint64, name string) {
	s.mu.Lock()
	if s.claims == nil {
		s.claims = map[uint64]string{}
	}
	s.claims[seq] = name
	s.mu.Unlock()
}

func (s *session) forget(seq uint64) {
	s.pushes.done(seq)
	s.mu.Lock()
	delete(s.claims, seq)
	s.mu.Unlock()
}
