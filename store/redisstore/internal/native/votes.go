// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// votes acquires and releases locks that several servers vote about (package quorum), if they are
// free, with one short script for all that callers ask for at the same time: votes.lua. A vote
// has no ticket, so plain commands cannot grant it: a counter must be raised, and only if it is
// lower.
type votes struct {
	s       *session
	batcher batcher
}

// fewVotes is how many votes are worth a second call while one is in flight. A script costs the
// server more than the votes that it carries, and there are as many servers as votes for a lock.
const fewVotes = 8

func (v *votes) init(s *session) {
	v.s = s
	v.batcher.init(s, fewVotes, v.call)
}

// script is what the server knows under its run id only, or nil if it is not known to be
// loaded.
func (v *votes) script() *rediscmd.Script {
	if v.s.proof.missing.Load() {
		return nil
	}
	return v.s.proof.scripts[votesScript]
}

// may reports whether a claim that was never sent before may be sent with others.
func (v *votes) may(c *driver.Claim) bool {
	return v.s.fast.allowed && c.Floor > 0 && !c.Lift && simple(c.Terms) && v.script() != nil && !v.s.store.contended.has(c.Name)
}

// mayRelease reports whether a grant may be removed with others.
func (v *votes) mayRelease(w driver.Withdrawal, c claim) bool {
	return c.voted && c.name == w.Name && !w.Tombstone && w.KeepFor == 0 && v.script() != nil && !v.s.store.contended.has(w.Name)
}

// acquire grants a claim. If the claim is not granted, attempt.lua has to decide.
func (v *votes) acquire(ctx context.Context, c *driver.Claim, record string) (out driver.Outcome, err error) {
	o := newOperation()
	o.name, o.seq, o.element, o.floor = c.Name, c.Seq, record, int64(c.Floor)/driver.TokenStep
	if err := v.batcher.do(ctx, o); err != nil {
		if errors.Is(err, driver.ErrUnknown) {
			v.s.claims.doubt(c.Seq)
		}
		return out, err
	}
	if o.ticket > 0 {
		v.s.claims.voted(c.Seq, o.ticket)
		out = driver.Outcome{State: driver.Granted, Token: driver.Token(o.ticket * driver.TokenStep)}
	}
	o.free()
	return out, nil
}

// release reports whether a grant was removed. Otherwise withdraw.lua has to find out why.
func (v *votes) release(ctx context.Context, w driver.Withdrawal) (bool, error) {
	o := newOperation()
	o.release, o.name, o.seq = true, w.Name, w.Seq
	err := v.batcher.do(ctx, o)
	switch {
	case errors.Is(err, rediscmd.ErrFull):
		return false, nil // a claim in the same batch needed memory; withdraw.lua does without
	case err != nil:
		return false, err
	}
	defer o.free()
	return o.result == released, nil
}

// call sends the operations, releases first: a claim in the same batch may be for the same lock.
// None is done if the server does not know the script, or has lost it.
func (v *votes) call(ctx context.Context, next *batch) error {
	script := v.script()
	if script == nil {
		return nil
	}
	all := next.operations
	slices.SortStableFunc(all, func(x, y *operation) int { return cmp.Compare(x.floor, y.floor) }) // a release has none
	keys, args := v.arguments(all)
	reply, err := v.s.store.client.Eval(ctx, script, keys, args)
	if errors.Is(err, rediscmd.ErrNoScript) {
		v.s.proof.lost()
		return nil
	}
	if err != nil {
		return err
	}
	r := rediscmd.Reader{Rest: reply}
	for _, o := range all {
		switch n := r.Number(); {
		case !o.release:
			o.ticket = n
		case n == 1:
			o.result = released
		}
	}
	if err := r.Err(); err != nil {
		return errors.Join(driver.ErrUnknown, err)
	}
	return nil
}

// arguments are those of votes.lua.
func (v *votes) arguments(batch []*operation) (keys, args []string) {
	keys = make([]string, 2, 2+len(batch))
	keys[0], keys[1] = v.s.fast.bucket, v.s.fast.none
	args = make([]string, 7, 7+len(batch))
	seqs := make([]byte, 0, 6*len(batch))
	var floors, slots []byte
	var records []string
	differ := false
	for _, o := range batch {
		keys = append(keys, v.s.fast.lists+o.name)
		seqs = append(seqs, byte(o.seq>>40), byte(o.seq>>32), byte(o.seq>>24), byte(o.seq>>16), byte(o.seq>>8), byte(o.seq))
		if o.release {
			continue
		}
		floors = append(floors, rediscmd.BytesOf(o.floor, 7)...)
		slots = append(slots, voteSlot(o.name))
		records = append(records, o.element)
		differ = differ || o.element != records[0]
	}
	args[0], args[1] = v.s.sid, v.s.tail
	args[2], args[3], args[4], args[5] = strconv.Itoa(len(batch)-len(records)), string(seqs), string(floors), string(slots)
	if len(records) > 0 {
		args[6] = records[0]
	}
	if differ {
		args = append(args, records[1:]...)
	}
	return keys, args
}

// voteSlot is what slot.lua computes from a name.
func voteSlot(name string) byte {
	last := name[max(0, len(name)-3):]
	sum := 31 * len(name)
	for i, factor := range []int{7, 13, 17}[:len(last)] {
		sum += factor * int(last[i])
	}
	return byte(sum % 256)
}
