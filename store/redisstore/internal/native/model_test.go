// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// tb is what a world needs of a test: *testing.T and *rapid.T have it.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a store on a real server and the model, memstore, side by side with
// one clock. Every step is done on both, and the answers are compared.
type world struct {
	t     tb
	ctx   context.Context
	p     *pretense
	real  driver.Store
	model *memstore.Store
	names []string
	procs []*proc
	pairs map[string][]pair // tokens seen for a name, model and real
	steps []string          // what was done so far, for people
	// quick makes an elapse read nothing, so that the ends of sessions are found by the next
	// call. The model grants to the next queued claim when a session ends, and Redis with the
	// next call, so ages may differ then.
	quick bool
	// scripted is set if the store uses no plain commands.
	scripted bool
	// another returns a store of the same namespace, as another process has one.
	another func() driver.Store
	// saved is a copy of the data of both sides, if the test took one.
	saved *saved
}

// proc is a process with its session on both sides.
type proc struct {
	i, opened   int // its number, and how many sessions it opened
	id          driver.SessionID
	real, model driver.Session
	end         time.Time // when its session ends unless kept alive
	ttl         time.Duration
	seq         uint64
	claims      []*driver.Claim
	stale       map[uint64]bool // claims of an earlier run or copy of the data, not asked for since
	informed    map[uint64]bool // claims whose last answer was that they are granted
	held        []held          // what it holds as both sides see it
	lost        []held          // what it held when the memory was lost, until reclaimed
}

// held is a grant with both tokens.
type held struct {
	claim driver.Claim
	pair
}

type pair struct{ model, real driver.Token }

type saved struct {
	real  memory
	model *memstore.Snapshot
}

// Times are chosen so that the two sides never compare at the moment something
// ends, because Redis counts milliseconds and the model nanoseconds: steps happen
// at multiples of tick, sessions end at 4, 8 or 12 ms after one and are compared
// 2 ms later, holds last a multiple of it and holdExtra, and a grace ends 17 ms
// after one.
const (
	tick      = 20 * time.Millisecond
	ttlExtra  = 4 * time.Millisecond // for each process
	afterEnd  = 2 * time.Millisecond
	holdExtra = 2 * time.Millisecond
	maxTTL    = 2100*time.Millisecond + 17*time.Millisecond
	// lossTakes is above one µs for each grant there can be between two losses:
	// the counter of a new run begins at the clock in µs.
	lossTakes = 60 * time.Microsecond
	// tolerance is how far two answers about time may be apart.
	tolerance = afterEnd
)

// pretended starts a server and returns a store on it with a pretended clock.
func pretended(t testing.TB) (*pretense, *native.Store) {
	server := redistest.Start(t)
	p, client := newPretense(t, server.Addr)
	must.OK(t, p.write(t.Context()))
	return p, newStore(t, p, client, false)
}

func newStore(t tb, p *pretense, client *redis.Client, grace bool) *native.Store {
	t.Helper()
	return newStoreIn(t, client, p.namespace, grace)
}

// newStoreIn is newStore for another namespace.
func newStoreIn(t tb, client *redis.Client, namespace string, grace bool) *native.Store {
	t.Helper()
	s, err := newGoRedis(client, &native.Options{Namespace: namespace, MaxTTL: maxTTL, Grace: grace})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s
}

func newWorld(t tb, p *pretense, real driver.Store, opts *memstore.Options) *world {
	if opts == nil {
		opts = &memstore.Options{}
	}
	opts.MaxTTL = maxTTL
	opts.Now = func() time.Time { return p.now }
	w := &world{t: t, ctx: context.Background(), p: p, real: real, model: memstore.New(opts),
		names: []string{"a", "b", "c", "d"}, pairs: map[string][]pair{}}
	for i := range 3 {
		w.procs = append(w.procs, &proc{i: i, stale: map[uint64]bool{}, informed: map[uint64]bool{}})
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("the test's own call: %v", err)
	}
}

// step notes what is done.
func (w *world) step(format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf("%2d. ", len(w.steps)+1)+fmt.Sprintf(format, args...))
}

// differ fails with the sequence that led here.
func (w *world) differ(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n\nthe steps:\n%s\n", fmt.Sprintf(format, args...), strings.Join(w.steps, "\n"))
}

// meanings are the errors that a driver's answer can mean.
var meanings = []error{driver.ErrGone, driver.ErrReset, driver.ErrNotHeld, driver.ErrRefused,
	driver.ErrUnknown, driver.ErrUnavailable, driver.ErrUnsupported}

// same compares errors by meaning, and reports whether there was none.
func (w *world) same(what string, model, real error) bool {
	w.t.Helper()
	for _, m := range meanings {
		if errors.Is(model, m) != errors.Is(real, m) {
			w.differ("%s: the model says %v, Redis %v", what, model, real)
		}
	}
	if (model == nil) != (real == nil) {
		w.differ("%s: the model says %v, Redis %v", what, model, real)
	}
	return model == nil
}

// equal compares two answers in their printed form.
func (w *world) equal(what string, model, real any) {
	w.t.Helper()
	if m, r := fmt.Sprintf("%+v", model), fmt.Sprintf("%+v", real); m != r {
		w.differ("%s:\nmodel %s\nRedis %s", what, m, r)
	}
}

// token compares two tokens of a name: they must be the same one, or as new as
// each other, whatever their numbers.
func (w *world) token(what, name string, model, real driver.Token) {
	w.t.Helper()
	if real <= 0 || real%driver.TokenStep != 0 {
		w.differ("%s: token %v is not a positive multiple of %d", what, real, driver.TokenStep)
	}
	for _, p := range w.pairs[name] {
		if (p.model < model) != (p.real < real) || (p.model == model) != (p.real == real) {
			w.differ("%s: %q has tokens %v in the model and %v in Redis; %v and %v were seen before", what, name, model, real, p.model, p.real)
		}
	}
	if p := (pair{model, real}); !slices.Contains(w.pairs[name], p) {
		w.pairs[name] = append(w.pairs[name], p)
	}
}

// near compares two durations.
func (w *world) near(what string, model, real time.Duration) {
	w.t.Helper()
	if d := model - real; d > tolerance || d < -tolerance {
		w.differ("%s: %v in the model, %v in Redis", what, model, real)
	}
}

// view is a holder in a form to compare: without its token and its times.
func (w *world) view(h driver.Holder) string {
	return fmt.Sprintf("{%s %v weight %d re-entry %q %q kept %t}", w.who(h.Claim), h.Mode, h.Weight,
		h.Reentry, h.Record.Reason, h.Kept)
}

// who prints a claim as process and number.
func (w *world) who(id driver.ClaimID) string {
	for _, p := range w.procs {
		if p.id == id.Session {
			return fmt.Sprintf("p%d:%d", p.i, id.Seq)
		}
	}
	if id.Session == (driver.SessionID{}) {
		return fmt.Sprintf("nobody:%d", id.Seq)
	}
	return id.String()
}

// holders compares two lists of holders, and their tokens.
func (w *world) holders(what, name string, model, real []driver.Holder) {
	w.t.Helper()
	if len(model) == driver.MaxHoldersReported && len(real) == len(model) {
		model = w.theSame(name, real) // of more than that, any may be reported
	}
	model, real = w.inOrder(model), w.inOrder(real)
	var m, r []string
	for _, h := range model {
		m = append(m, w.view(h))
	}
	for _, h := range real {
		r = append(r, w.view(h))
	}
	w.equal(what+": holders", m, r)
	for i := range model {
		w.token(what, name, model[i].Token, real[i].Token)
		w.near(what+": end", model[i].EndsIn, real[i].EndsIn)
		if !w.quick {
			w.near(what+": age", model[i].Age, real[i].Age)
		}
	}
}

// theSame returns the holders of the model that Redis has reported.
func (w *world) theSame(name string, real []driver.Holder) (same []driver.Holder) {
	st, err := w.model.Inspect(w.ctx, name)
	w.must(err)
	for _, h := range st.Holders {
		if slices.ContainsFunc(real, func(r driver.Holder) bool { return w.view(r) == w.view(h) }) && len(same) < len(real) {
			same = append(same, h)
		}
	}
	return same
}

// inOrder returns holders in the order of their tokens, as package native keeps them.
func (w *world) inOrder(all []driver.Holder) []driver.Holder {
	return slices.SortedFunc(slices.Values(all), func(a, b driver.Holder) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), strings.Compare(w.view(a), w.view(b)))
	})
}

// compare compares a lock, and learns who holds it. Redis drops a waiting claim
// whose session ended when it comes to the front, so it may show more of them.
func (w *world) compare(name string) {
	w.t.Helper()
	what := fmt.Sprintf("inspect %q", name)
	m, err1 := w.model.Inspect(w.ctx, name)
	r, err2 := w.real.Inspect(w.ctx, name)
	if !w.same(what, err1, err2) {
		return
	}
	w.holders(what, name, m.Holders, r.Holders)
	w.equal(what+": limit", m.Limit, r.Limit)
	w.near(what+": grace", m.Grace, r.Grace)
	var ml, rl []string
	for _, x := range m.Waiters {
		ml = append(ml, w.who(x.Claim)+" "+x.Record.Reason)
	}
	for _, x := range r.Waiters {
		if w.waits(m, x.Claim) {
			rl = append(rl, w.who(x.Claim)+" "+x.Record.Reason)
		}
	}
	w.equal(what+": line", ml, rl)
	if r.Waiting < m.Waiting {
		w.differ("%s: %d wait in the model, %d in Redis", what, m.Waiting, r.Waiting)
	}
	m.Holders, r.Holders = w.inOrder(m.Holders), w.inOrder(r.Holders)
	for i, h := range m.Holders {
		w.remember(name, h, pair{h.Token, r.Holders[i].Token})
	}
}

// waits reports whether a claim that Redis shows in the queue must be compared: it is in
// the model's line, or nothing excuses that it is in Redis's.
func (w *world) waits(m driver.Status, id driver.ClaimID) bool {
	if slices.ContainsFunc(m.Waiters, func(x driver.Waiter) bool { return x.Claim == id }) {
		return true
	}
	for _, p := range w.procs {
		if p.id == id.Session {
			return p.real != nil && w.p.now.Before(p.end) && !p.stale[id.Seq]
		}
	}
	return false
}

// remember notes a grant as its process would.
func (w *world) remember(name string, h driver.Holder, tokens pair) {
	for _, p := range w.procs {
		if p.id != h.Claim.Session {
			continue
		}
		for _, c := range p.claims {
			if c.Seq == h.Claim.Seq && c.Name == name {
				p.held = append(p.held, held{*c, tokens})
			}
		}
	}
}

// compareAll compares every lock.
func (w *world) compareAll() {
	w.t.Helper()
	for _, p := range w.procs {
		p.held = nil
	}
	for _, name := range w.names {
		w.compare(name)
	}
}
