// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// init makes the default three times that of rapid; the command line is read later.
func init() { _ = flag.Set("rapid.checks", "300") }

// TestScriptsAgainstModel does random steps on a real server and on the model
// and compares every answer. A failure is shrunk to the shortest sequence and
// printed, one line a step. More: -rapid.checks=10000; the same again:
// -rapid.seed with the printed number. What may differ from the model, and why:
//
//   - The order of holders. The store shows them by token, the model by the time of the grant; a
//     reclaim makes the two differ. No clause promises an order.
//   - Which four of more holders an attempt reports. They must be holders, with their tokens.
//   - A grant of older data that its process does not know (machine.mayAgain).
//   - Only a quarter of the walks has votes: the first vote ends the plain commands of a bucket.
//   - Operations that are sent at once are for different names, because those for one name
//     have no order.
func TestScriptsAgainstModel(t *testing.T) {
	t.Parallel()
	for _, grace := range []bool{false, true} {
		t.Run(fmt.Sprintf("grace=%t", grace), func(t *testing.T) {
			t.Parallel()
			p, client := newPretense(t, redistest.Start(t).Addr)
			rapid.Check(t, func(r *rapid.T) { walk(r, p, client, grace) })
		})
	}
}

// walk is one random sequence on an empty server.
func walk(t *rapid.T, p *pretense, client *redis.Client, grace bool) {
	p.begin()
	if err := p.become(t.Context(), nil); err != nil {
		t.Fatalf("flush: %v", err)
	}
	way := rapid.SampledFrom(ways).Draw(t, "way")
	p.mu.Lock() // the last sequence may still be proving
	p.proven = way.proven
	p.mu.Unlock()
	store := newStoreIn(t, client, p.namespace+way.suffix, grace)
	w := newWorld(t, p, store, &memstore.Options{Grace: grace})
	if grace { // an unused server begins with a grace period, the model does not
		w.must(store.SetLimit(w.ctx, w.names[0], 0)) // sets the namespace up
		p.now = p.now.Add(maxTTL + tick).Truncate(tick)
		w.must(p.write(w.ctx))
	}
	w.quick = rapid.Bool().Draw(t, "quick")
	m := &machine{w: w, votes: rapid.IntRange(0, 3).Draw(t, "votes") == 0}
	steps := map[string]func(*rapid.T){
		"":         m.check,
		"open":     m.open,
		"keep":     m.keepAlive,
		"attempt":  m.attempt,
		"attempt2": m.attempt, // twice as likely
		"again":    m.again,
		"batch":    m.crowd,
		"plain":    m.plain,
		"plain2":   m.plain, // three times as likely
		"plain3":   m.plain,
		"shared":   m.downgrade,
		"withdraw": m.withdraw,
		"break":    m.breakToken,
		"limit":    m.setLimit,
		"close":    m.close,
		"elapse":   m.elapse,
		"save":     m.save,
		"lose":     m.lose,
		"failover": m.failover,
		"outlast":  m.outlast,
		"reclaim":  m.reclaim,
	}
	t.Repeat(steps)
}

// machine draws the steps.
type machine struct {
	w      *world
	unseen bool // the last step is to stay unseen
	votes  bool // there are attempts of a quorum in this walk
}

func (m *machine) check(t *rapid.T) {
	m.w.t = t
	if m.unseen = m.unseen && m.w.quick; !m.unseen {
		m.w.compareAll()
	}
	m.unseen = false
	m.exclusion()
}

// exclusion holds whatever the model does: beside an exclusive grant there are only grants
// of the same re-entry (O1).
func (m *machine) exclusion() {
	for _, name := range m.w.names {
		var all []*driver.Terms
		for _, p := range m.w.procs {
			for _, h := range p.held {
				if h.claim.Name == name {
					all = append(all, h.claim.Terms)
				}
			}
		}
		for i, a := range all {
			for _, b := range all[:i] {
				exclusive := a.Mode == driver.Exclusive || b.Mode == driver.Exclusive
				if exclusive && (a.Reentry == "" || a.Reentry != b.Reentry) {
					m.w.differ("%q is held exclusively and by another", name)
				}
			}
		}
	}
}

// process draws a process that has a session, whatever became of it.
func (m *machine) process(t *rapid.T) int {
	var with []int
	for i, p := range m.w.procs {
		if p.real != nil {
			with = append(with, i)
		}
	}
	if len(with) == 0 {
		t.Skip("no session")
	}
	return rapid.SampledFrom(with).Draw(t, "process")
}

// claim draws a claim of a process that a test may use.
func (m *machine) claim(t *rapid.T, ok func(p *proc, c *driver.Claim) bool) (int, *driver.Claim) {
	i := m.process(t)
	var all []*driver.Claim
	for _, c := range m.w.procs[i].claims {
		if ok(m.w.procs[i], c) {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		t.Skip("no claim")
	}
	return i, rapid.SampledFrom(all).Draw(t, "claim")
}

func any1(*proc, *driver.Claim) bool { return true }

// name draws a name, most often one of two, so that claims meet.
func (m *machine) name(t *rapid.T) string {
	return rapid.SampledFrom(append([]string{"a", "a", "b", "b"}, m.w.names...)).Draw(t, "name")
}

func (m *machine) open(t *rapid.T) {
	ttl := time.Duration(rapid.IntRange(1, 20).Draw(t, "tenths of a second")) * 100 * time.Millisecond
	m.w.open(rapid.IntRange(0, len(m.w.procs)-1).Draw(t, "process"), ttl)
}

func (m *machine) keepAlive(t *rapid.T) { m.w.keepAlive(m.process(t)) }

func (m *machine) attempt(t *rapid.T) {
	i := m.process(t)
	p := m.w.procs[i]
	p.seq++
	c := &driver.Claim{Seq: p.seq, Name: m.name(t), Terms: m.terms(t), Queue: rapid.Bool().Draw(t, "queue")}
	m.vote(t, c)
	c.Terms.Record.Reason = fmt.Sprintf("claim %d of p%d", c.Seq, i)
	if m.w.p.now.Before(p.end) {
		p.claims = append(p.claims, c)
	}
	m.w.attempt(i, c)
}

// plain tries a claim that takes the fast path.
func (m *machine) plain(t *rapid.T) {
	i := m.process(t)
	p := m.w.procs[i]
	p.seq++
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{Reason: fmt.Sprintf("claim %d of p%d", p.seq, i)}}
	c := &driver.Claim{Seq: p.seq, Name: m.name(t), Terms: terms, Queue: true}
	if m.w.p.now.Before(p.end) {
		p.claims = append(p.claims, c)
	}
	m.w.attempt(i, c)
}

// holds are pairs of MinHold and MaxHold; most claims have none.
var holds = [][2]time.Duration{
	{}, {}, {}, {},
	{300*time.Millisecond + holdExtra, 0},
	{3*time.Second + holdExtra, 0},
	{0, 200*time.Millisecond + holdExtra},
	{0, 2*time.Second + holdExtra},
	{300*time.Millisecond + holdExtra, 2*time.Second + holdExtra},
}

func (m *machine) terms(t *rapid.T) *driver.Terms {
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	if rapid.Bool().Draw(t, "shared") {
		terms.Mode = driver.Shared
		terms.Weight = int64(rapid.IntRange(1, 3).Draw(t, "weight"))
		if rapid.Bool().Draw(t, "limited") {
			terms.Limit = terms.Weight + int64(rapid.IntRange(0, 3).Draw(t, "spare"))
		}
	} else {
		terms.Reentry = rapid.SampledFrom([]string{"", "", "r", "s"}).Draw(t, "re-entry")
	}
	if !m.w.quick { // see world.quick
		h := rapid.SampledFrom(holds).Draw(t, "holds")
		terms.MinHold, terms.MaxHold = h[0], h[1]
	}
	return terms
}

// vote makes some attempts those of a quorum.
func (m *machine) vote(t *rapid.T, c *driver.Claim) {
	if !m.votes {
		c.Floor, c.Lift = 0, false // votes would end the fast path for the rest of the walk
		return
	}
	c.Floor = driver.Token(rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "floor"))
	c.Lift = c.Floor > 0 && rapid.Bool().Draw(t, "lift")
}

func (m *machine) again(t *rapid.T) {
	i, c := m.claim(t, m.mayAgain)
	m.vote(t, c)
	m.w.attempt(i, c)
}

// mayAgain reports whether a process asks again for a claim as the model does. The data of an
// earlier incarnation may grant a claim whose process got another answer since, or never
// learned of the grant or of its last token. The model keeps that grant, and lists make a new one (redismodel, rule 15):
// no process holds the lock with the old token, and other tokens may have been granted since.
func (m *machine) mayAgain(p *proc, c *driver.Claim) bool {
	granted := slices.ContainsFunc(p.held, func(h held) bool { return h.claim.Seq == c.Seq })
	return !granted || !p.stale[c.Seq] || p.informed[c.Seq]
}

// downgrade asks for a grant again, with shared terms.
func (m *machine) downgrade(t *rapid.T) {
	i, c := m.claim(t, func(p *proc, c *driver.Claim) bool {
		for _, h := range p.held {
			if h.claim.Seq == c.Seq {
				return c.Terms.Mode == driver.Exclusive && m.mayAgain(p, c)
			}
		}
		return false
	})
	terms := *c.Terms
	terms.Mode = driver.Shared
	c.Terms = &terms
	m.w.attempt(i, c)
}

func (m *machine) withdraw(t *rapid.T) {
	i, c := m.claim(t, any1)
	keep := rapid.SampledFrom([]time.Duration{0, 0, 0, 500*time.Millisecond + holdExtra}).Draw(t, "keep for")
	m.w.withdraw(i, driver.Withdrawal{Seq: c.Seq, Name: c.Name, KeepFor: keep, Tombstone: rapid.Bool().Draw(t, "tombstone")})
}

func (m *machine) breakToken(t *rapid.T) {
	name := m.name(t)
	tokens := append([]pair{{driver.TokenStep / 2, driver.TokenStep / 2}}, m.w.pairs[name]...)
	m.w.breakToken(name, rapid.SampledFrom(tokens).Draw(t, "token"))
}

func (m *machine) setLimit(t *rapid.T) {
	m.w.setLimit(m.name(t), int64(rapid.IntRange(0, 4).Draw(t, "limit")))
}

func (m *machine) close(t *rapid.T) { m.w.close(m.process(t)) }

func (m *machine) elapse(t *rapid.T) {
	ticks := rapid.SampledFrom([]int{1, 8, 15, 30, 100, 200}).Draw(t, "ticks")
	m.unseen = rapid.Bool().Draw(t, "unseen")
	m.w.elapse(time.Duration(ticks) * tick)
}

func (m *machine) save(*rapid.T) { m.w.save() }

func (m *machine) lose(t *rapid.T) {
	ways := []string{"flush", "restart", "wiped"}
	if m.w.saved != nil {
		ways = append(ways, "older")
	}
	m.loseSo(t, rapid.SampledFrom(ways).Draw(t, "how"))
}

func (m *machine) loseSo(t *rapid.T, how string) {
	if now := m.w.p.now; now.Add(lossTakes).Round(time.Millisecond).After(now) {
		t.Skip("half a millisecond of losses: they would count as time")
	}
	m.w.lose(how, rapid.Bool().Draw(t, "by attempt"))
}

// failover is what the other steps rarely make of themselves: a replica that
// misses the last steps takes over, and processes reclaim.
func (m *machine) failover(t *rapid.T) {
	m.process(t) // or skip
	m.w.save()
	for range rapid.IntRange(1, 3).Draw(t, "missed") {
		if i, c := m.someHeld(t); c != nil && rapid.Bool().Draw(t, "release") {
			m.w.withdraw(i, driver.Withdrawal{Seq: c.Seq, Name: c.Name})
		}
		m.attempt(t)
		m.w.compareAll()
	}
	m.loseSo(t, "older")
	for i, p := range m.w.procs {
		if p.real != nil && len(p.lost) > 0 && rapid.Bool().Draw(t, "reclaims") {
			m.w.reclaim(i, p.lost, rapid.Bool().Draw(t, "last"))
		}
	}
}

// outlast keeps all sessions alive until a grace period is over, and reads nothing: claims
// that waited through the grace period must still come before claims that come after it.
func (m *machine) outlast(t *rapid.T) {
	m.process(t) // or skip
	for range 4 {
		for i, p := range m.w.procs {
			if p.real != nil {
				m.w.keepAlive(i)
			}
		}
		m.w.elapse(30 * tick)
	}
	m.unseen = true
}

// someHeld draws a grant, if there is one.
func (m *machine) someHeld(t *rapid.T) (int, *driver.Claim) {
	type owned struct {
		i int
		c driver.Claim
	}
	var all []owned
	for i, p := range m.w.procs {
		for _, h := range p.held {
			all = append(all, owned{i, h.claim})
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	o := all[rapid.IntRange(0, len(all)-1).Draw(t, "held")]
	return o.i, &o.c
}

func (m *machine) reclaim(t *rapid.T) {
	i := m.process(t)
	var chosen []held
	for _, h := range m.w.procs[i].lost {
		if rapid.Bool().Draw(t, fmt.Sprintf("reclaim %d", h.claim.Seq)) {
			chosen = append(chosen, h)
		}
	}
	last := rapid.Bool().Draw(t, "last")
	if len(chosen) == 0 && !last {
		t.Skip("nothing to ask")
	}
	m.w.reclaim(i, chosen, last)
}

// TestReentryIsNotLifted: random steps found once that the sides differed about a claim
// that re-enters with a floor and asks for it to be lifted.
func TestReentryIsNotLifted(t *testing.T) {
	t.Parallel()
	p, store := pretended(t)
	w := newWorld(t, p, store, nil)
	w.open(0, time.Second)
	for seq, floor := range []driver.Token{0, 1} {
		terms := &driver.Terms{Weight: 1, Reentry: "r", Record: &driver.Record{}}
		w.attempt(0, &driver.Claim{Seq: uint64(seq + 1), Name: "b", Terms: terms, Floor: floor, Lift: floor > 0})
	}
	w.compareAll()
}
