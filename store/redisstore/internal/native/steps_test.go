// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// The steps of a world: each is done on both sides and compared.

// open opens the process's session or resumes it. A process whose session ended
// starts over.
func (w *world) open(i int, ttl time.Duration) {
	w.t.Helper()
	p := w.procs[i]
	if p.real == nil {
		p.opened++
		copy(p.id[:], fmt.Sprintf("process %d %6d", i, p.opened)) // not random: a run must repeat to be shrunk
	}
	if p.real == nil || !w.p.now.Before(p.end) {
		p.aged()
		p.claims, p.lost = nil, nil
	}
	// Ends differ by process: the model ends sessions one after the other and in
	// no order, and with the same end one that is over could be granted.
	ttl += time.Duration(i+1) * ttlExtra
	what := fmt.Sprintf("open p%d for %v", i, ttl)
	w.step("%s", what)
	req := driver.OpenRequest{Shard: w.real.Shard(w.names[0]), ID: p.id, Before: p.real, TTL: ttl}
	real, rl, err2 := w.real.Open(w.ctx, req)
	req.Shard = w.model.Shard(w.names[0])
	model, ml, err1 := w.model.Open(w.ctx, req)
	if w.same(what, err1, err2) {
		w.renewal(what, ml, rl)
		p.real, p.model, p.ttl, p.end = real, model, ttl, w.p.now.Add(ttl)
		w.proof(p)
	}
}

// proof waits until the process's calls take the fast path, if they ever will: a run must
// be repeatable to be shrunk, and must not miss the fast path because it ran too quickly.
func (w *world) proof(p *proc) {
	w.t.Helper()
	late := time.Now().Add(time.Minute)
	for before := w.p.shortCalls(); w.p.proven && w.p.shortCalls() == before; {
		p.seq++ // a claim that was never made
		_, err := p.real.Withdraw(w.ctx, driver.Withdrawal{Seq: p.seq, Name: w.names[0]})
		if w.must(err); time.Now().After(late) {
			w.t.Fatalf("no script that carries a run id was called")
		}
	}
}

// aged notes that Redis may still show the queued claims although they can no longer be
// granted.
func (p *proc) aged() {
	for _, c := range p.claims {
		p.stale[c.Seq] = true
	}
}

// asked notes that the process has a new answer about a claim: whether it held the claim
// before a data loss, and whether it may still be queued, no longer counts.
func (p *proc) asked(seq uint64) {
	delete(p.stale, seq)
	p.lost = slices.DeleteFunc(p.lost, func(h held) bool { return h.claim.Seq == seq })
}

func (w *world) renewal(what string, model, real driver.Renewal) {
	w.t.Helper()
	slices.Sort(model.Broken)
	slices.Sort(real.Broken)
	w.equal(what, model, real)
}

func (w *world) keepAlive(i int) {
	w.t.Helper()
	p := w.procs[i]
	what := fmt.Sprintf("keep p%d alive", i)
	w.step("%s", what)
	ml, err1 := p.model.KeepAlive(w.ctx)
	rl, err2 := p.real.KeepAlive(w.ctx)
	if w.same(what, err1, err2) {
		w.renewal(what, ml, rl)
		p.end = w.p.now.Add(p.ttl)
	}
}

// attempt tries a claim, new or again.
func (w *world) attempt(i int, c *driver.Claim) {
	w.t.Helper()
	p := w.procs[i]
	what := fmt.Sprintf("attempt p%d:%d %q %v", i, c.Seq, c.Name, termsText(c))
	mc, rc := w.floors(c)
	m, err1 := p.model.Attempt(w.ctx, mc)
	r, err2 := p.real.Attempt(w.ctx, rc)
	w.attempted(p, c, what, m, err1, r, err2)
}

// attempted compares what came of an attempt.
func (w *world) attempted(p *proc, c *driver.Claim, what string, m driver.Outcome, err1 error, r driver.Outcome, err2 error) {
	w.t.Helper()
	if !w.same(what, err1, err2) {
		w.step("%s: %v", what, err1)
		return
	}
	w.step("%s: %v", what, m.State)
	p.asked(c.Seq)
	w.equal(what+": state", m.State, r.State)
	w.near(what+": remaining", m.Remaining, r.Remaining)
	p.informed[c.Seq] = m.State == driver.Granted
	if c.Lift {
		w.unlearn(c)
	}
	if m.State == driver.Granted {
		w.token(what, c.Name, m.Token, r.Token)
		return
	}
	w.equal(what+": grace", m.Grace, r.Grace)
	w.holders(what, c.Name, m.Holders, r.Holders)
	// Claims whose session ended may still stand before this one in Redis.
	if r.Position < m.Position {
		w.differ("%s: place %d in the model, %d in Redis", what, m.Position, r.Position)
	}
	if r.Position == m.Position || m.Grace {
		w.near(what+": look after", m.PollAfter, r.PollAfter)
	}
}

// unlearn notes that a lift may have changed the tokens of claims that re-entered the same
// lock, and that their processes do not know.
func (w *world) unlearn(lifted *driver.Claim) {
	for _, p := range w.procs {
		for _, h := range p.held {
			if h.claim.Name == lifted.Name && h.claim.Seq != lifted.Seq {
				p.informed[h.claim.Seq] = false
			}
		}
	}
}

// floors returns the claim for either side. Its Floor is a number of steps above
// the highest token seen of the name, because the sides count differently.
func (w *world) floors(c *driver.Claim) (model, real *driver.Claim) {
	m, r := *c, *c
	if c.Floor > 0 {
		m.Floor, r.Floor = c.Floor*driver.TokenStep, c.Floor*driver.TokenStep
		for _, p := range w.pairs[c.Name] {
			m.Floor = max(m.Floor, p.model+c.Floor*driver.TokenStep)
			r.Floor = max(r.Floor, p.real+c.Floor*driver.TokenStep)
		}
	}
	return &m, &r
}

func termsText(c *driver.Claim) string {
	t := c.Terms
	s := t.Mode.String()
	if t.Mode == driver.Shared {
		s = fmt.Sprintf("shared %d of %d", t.Weight, t.Limit)
	}
	if c.Floor > 0 {
		s += fmt.Sprintf(" floor %d lift %t", c.Floor, c.Lift)
	}
	if t.Reentry != "" {
		s += " re-entry " + t.Reentry
	}
	if t.MinHold > 0 {
		s += " at least " + t.MinHold.String()
	}
	if t.MaxHold > 0 {
		s += " at most " + t.MaxHold.String()
	}
	if c.Queue {
		s += " queue"
	}
	return s
}

func (w *world) withdraw(i int, d driver.Withdrawal) {
	w.t.Helper()
	p := w.procs[i]
	what := fmt.Sprintf("withdraw p%d:%d %q keep for %v tombstone %t", i, d.Seq, d.Name, d.KeepFor, d.Tombstone)
	m, err1 := p.model.Withdraw(w.ctx, d)
	r, err2 := p.real.Withdraw(w.ctx, d)
	w.withdrawn(p, d, what, m, err1, r, err2)
}

// withdrawn compares what came of a withdrawal.
func (w *world) withdrawn(p *proc, d driver.Withdrawal, what string, m driver.Removed, err1 error, r driver.Removed, err2 error) {
	w.t.Helper()
	w.step("%s: %v %v", what, m, err1)
	p.informed[d.Seq] = false
	if errors.Is(err1, driver.ErrGone) && err2 == nil && r == driver.WasGranted {
		return // its session had ended, and its grant was still there: no other claim had the lock
	}
	if w.same(what, err1, err2) {
		w.equal(what, m, r)
		p.asked(d.Seq)
	}
}

// breakToken breaks a grant by a token that was seen, or by one that never was.
func (w *world) breakToken(name string, tokens pair) {
	w.t.Helper()
	what := fmt.Sprintf("break %q", name)
	m, err1 := w.model.Break(w.ctx, name, tokens.model)
	r, err2 := w.real.Break(w.ctx, name, tokens.real)
	w.step("%s: %v", what, err1)
	if w.same(what, err1, err2) {
		w.token(what, name, m, r)
	}
}

func (w *world) setLimit(name string, limit int64) {
	w.t.Helper()
	what := fmt.Sprintf("set the limit of %q to %d", name, limit)
	w.step("%s", what)
	w.same(what, w.model.SetLimit(w.ctx, name, limit), w.real.SetLimit(w.ctx, name, limit))
}

func (w *world) close(i int) {
	w.t.Helper()
	p := w.procs[i]
	what := fmt.Sprintf("close p%d", i)
	w.step("%s", what)
	w.same(what, p.model.Close(w.ctx), p.real.Close(w.ctx))
	p.real, p.model, p.claims, p.lost = nil, nil, nil, nil
	w.saved = nil // no process could resume a session that is in it
}

// elapse lets time pass on both sides. Unless the world is quick it compares both sides at
// each end of a session on the way, so that both grant to the next claim at that time.
func (w *world) elapse(d time.Duration) {
	w.t.Helper()
	w.step("%v pass", d)
	w.saved = nil // a copy that old would have sessions in it that have ended
	target := w.p.now.Truncate(tick).Add(d)
	var stops []time.Time
	for _, p := range w.procs {
		if p.real != nil && p.end.After(w.p.now) && p.end.Before(target) && !w.quick {
			stops = append(stops, p.end.Add(afterEnd))
		}
	}
	slices.SortFunc(stops, time.Time.Compare)
	for _, at := range append(stops, target) {
		w.p.now = at
		w.must(w.p.write(w.ctx))
		if !w.quick {
			w.compareAll()
		}
	}
}

// save copies the data of both sides. It compares them first: the model ends sessions as
// soon as their time has come, the scripts with the next call, and a copy would keep that
// difference over the data loss.
func (w *world) save() {
	w.compareAll()
	w.step("copy the data")
	m, err := w.p.dump(w.ctx)
	w.must(err)
	w.saved = &saved{m, w.model.Snapshot()}
}

// lose begins a new incarnation on both sides, with the data it had, with older data or
// with none. Every session learns of it, by an attempt or a keep-alive, and resumes.
func (w *world) lose(how string, byAttempt bool) {
	w.t.Helper()
	w.step("the server loses its data: %s", how)
	w.compareAll()
	w.p.now = w.p.now.Add(lossTakes)
	if how != "flush" {
		w.must(w.p.restart(w.ctx))
	}
	switch how {
	case "restart":
		w.model.Restart()
	case "older":
		w.must(w.p.become(w.ctx, w.saved.real))
		w.model.Restore(w.saved.model)
	default:
		w.must(w.p.become(w.ctx, nil))
		w.model.Reset()
	}
	w.begin()
	w.saved = nil
	for i, p := range w.procs {
		if p.real == nil {
			continue
		}
		if p.seq++; byAttempt {
			terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
			w.attempt(i, &driver.Claim{Seq: p.seq, Name: w.names[0], Terms: terms})
		}
		w.keepAlive(i)
		if w.p.now.Before(p.end) {
			for _, h := range p.held {
				p.asked(h.claim.Seq)
			}
			p.lost = append(p.lost, p.held...)
			p.aged()
			w.open(i, p.ttl-time.Duration(i+1)*ttlExtra)
		}
	}
}

// begin opens a separate session on Redis and closes it: there an incarnation begins with
// the first session, and reading does not begin one. The model begins its incarnation at the
// data loss.
func (w *world) begin() {
	w.t.Helper()
	s, _, err := w.real.Open(w.ctx, driver.OpenRequest{Shard: w.real.Shard(w.names[0]), ID: driver.SessionID{1}, TTL: time.Second})
	if err == nil {
		err = s.Close(w.ctx)
	}
	w.must(err)
}

// reclaim puts grants back that were held when the data was lost.
func (w *world) reclaim(i int, chosen []held, last bool) {
	w.t.Helper()
	p := w.procs[i]
	var mh, rh []driver.Held
	what := fmt.Sprintf("reclaim p%d last %t:", i, last)
	chosen = slices.Clone(chosen) // it may be p.lost itself
	for _, h := range chosen {
		what += fmt.Sprintf(" %d %q", h.claim.Seq, h.claim.Name)
		mh = append(mh, driver.Held{Claim: h.claim, Token: h.model})
		rh = append(rh, driver.Held{Claim: h.claim, Token: h.real})
	}
	m, err1 := p.model.Reclaim(w.ctx, mh, last)
	r, err2 := p.real.Reclaim(w.ctx, rh, last)
	w.step("%s: %v %v", what, m, err1)
	if w.same(what, err1, err2) {
		w.equal(what, m, r)
		for j, h := range chosen {
			p.informed[h.claim.Seq] = m[j]
			if !m[j] { // given up, as the core does
				p.lost = slices.DeleteFunc(p.lost, func(o held) bool { return o.claim.Seq == h.claim.Seq })
			}
		}
	}
	if last {
		p.lost = nil
	}
}
