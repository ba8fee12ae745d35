// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/composite"
)

// Store is a driver.Store made of an old one and the new one. Make one with New. It is safe for
// concurrent use.
type Store struct {
	old, next driver.Store
	caps      driver.Caps
	// floored is set if the new store is asked for tokens above the old store's, and raises if
	// the old store is then asked for later tokens above the new store's.
	floored, raises bool
}

var (
	_ driver.Store   = (*Store)(nil)
	_ driver.Checker = (*Store)(nil)
)

// Options are the settings of a store; nil stands for the defaults. No setting exists yet.
type Options struct{}

// Stores are the two stores of a migration. Each stays in its place for the whole migration, even on the way
// back: every process must take the locks in the same order.
type Stores struct {
	// Old is the store that the fleet moves from, and New the one that it moves to.
	Old, New driver.Store
}

// New returns a store that takes locks in the old store and in the new one. It fails if one is missing, if
// they are the same value, or if no TTL suits both. It does no I/O, so two values for one server are noticed
// only by the first lock, which is refused; without tokens they are one lock, and not noticed. The two stores
// stay the caller's.
func New(stores Stores, _ *Options) (*Store, error) {
	old, next := stores.Old, stores.New
	switch {
	case old == nil || next == nil:
		return nil, errors.New("both: Stores.Old and Stores.New are required")
	case reflect.ValueOf(old).Comparable() && reflect.ValueOf(next).Comparable() && old == next:
		return nil, errors.New("both: Stores.Old and Stores.New are the same store; give Old the one that the fleet moves from")
	}
	o, n := old.Caps(), next.Caps()
	caps, err := combined(o, n)
	if err != nil {
		return nil, err
	}
	fences := o.Fencing != driver.NoFencing && n.Fencing != driver.NoFencing
	return &Store{
		old: old, next: next, caps: caps, floored: fences && n.Floor, raises: fences && o.Floor,
	}, nil
}

// combined is what both stores can.
func combined(old, next driver.Caps) (driver.Caps, error) {
	c := composite.Common(old, next)
	if c.MaxTTL > 0 && c.MinTTL > c.MaxTTL {
		return c, fmt.Errorf("both: no TTL suits both stores: the greater MinTTL is %v, the lesser MaxTTL %v", c.MinTTL, c.MaxTTL)
	}
	c.Engine = old.Engine + " and " + next.Engine
	c.Push = old.Push && next.Push
	// Processes in phase new wait in the new store only, so there is not one queue.
	c.Queue = false
	c.Floor = false // it would have to raise two counters in one step
	c.Fencing = next.Fencing
	// That the old store's tokens were raised is lost with its data.
	if strict := old.Fencing == driver.Strict && old.Floor && old.Durability == driver.Durable && next.Floor; !strict {
		c.Fencing = min(next.Fencing, driver.BestEffort)
	}
	c.Assumes = strings.Join(nonEmpty(old.Assumes, next.Assumes, tokensAssume(c.Fencing)), "\n")
	c.Advice = strings.Join(nonEmpty(prefixed("old store: ", old.Advice), prefixed("new store: ", next.Advice)), "; ")
	if c.Advice == "" && c.Fencing != driver.Strict {
		c.Advice = "finish the migration and open the new store alone"
	}
	return c, nil
}

// tokensAssume is what the order of tokens depends on during a migration.
func tokensAssume(f driver.Fencing) string {
	switch f {
	case driver.NoFencing:
		return ""
	case driver.Strict:
		return "Tokens are those of the new store, and rise together with those of processes that use the old store only."
	}
	return "Tokens are those of the new store. They do not order the effects of processes that use the old store only."
}

func nonEmpty(texts ...string) (some []string) {
	for _, t := range texts {
		if t != "" {
			some = append(some, t)
		}
	}
	return some
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps { return s.caps }

// Shard implements driver.Store: the shards of both stores, the first with its length.
func (s *Store) Shard(name string) string {
	old := s.old.Shard(name)
	return strconv.Itoa(len(old)) + ":" + old + s.next.Shard(name)
}

// shards takes apart what Shard put together.
func shards(shard string) (old, next string, ok bool) {
	length, rest, found := strings.Cut(shard, ":")
	n, err := strconv.Atoi(length)
	if !found || err != nil || n < 0 || n > len(rest) {
		return "", "", false
	}
	return rest[:n], rest[n:], true
}

// Open implements driver.Store: both sessions have the same id.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	oldShard, nextShard, ok := shards(req.Shard)
	switch {
	case !ok:
		return nil, driver.Renewal{}, fmt.Errorf("both: %q is not a shard that Shard returned: %w", req.Shard, driver.ErrRefused)
	case req.TTL < s.caps.MinTTL || s.caps.MaxTTL > 0 && req.TTL > s.caps.MaxTTL:
		return nil, driver.Renewal{}, fmt.Errorf("both: TTL %v is not within %v and %v, the bounds of both stores: %w",
			req.TTL, s.caps.MinTTL, s.caps.MaxTTL, driver.ErrRefused)
	}
	all := s.known(req)
	oldReq, nextReq := req, req
	oldReq.Shard, nextReq.Shard = oldShard, nextShard
	oldReq.Before, nextReq.Before = all.last()
	var o, n opened
	inParallel(func() { o.open(ctx, s.old, oldReq) }, func() { n.open(ctx, s.next, nextReq) })
	if err := failures("open", o.err, n.err); err != nil {
		all.abandon(o, n)
		return nil, driver.Renewal{}, err
	}
	all.open(o, n)
	opened := &session{s: s, id: req.ID, ttl: req.TTL, old: o.drv, next: n.drv, claims: all}
	opened.doubt.Store(true)
	return opened, renewed(o.renewal, n.renewal), nil
}

// known returns what is known of the claims of a session: that of the last value, if it is opened again.
func (s *Store) known(req driver.OpenRequest) *claims {
	if before, ok := req.Before.(*session); ok && before.s == s && before.id == req.ID {
		return before.claims
	}
	return newClaims()
}

// opened is the answer of one store to Open.
type opened struct {
	drv     driver.Session
	renewal driver.Renewal
	err     error
}

func (o *opened) open(ctx context.Context, store driver.Store, req driver.OpenRequest) {
	o.drv, o.renewal, o.err = store.Open(ctx, req)
}

// abandonPatience bounds the end of a session that only one of the stores could open.
const abandonPatience = time.Second

// abandon ends what was opened of a session that was not open before.
func (all *claims) abandon(old, next opened) {
	if all.keep(old, next) {
		return
	}
	for _, drv := range []driver.Session{old.drv, next.drv} {
		if drv != nil {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), abandonPatience)
				defer cancel()
				_ = drv.Close(ctx) // or it ends by its TTL
			}()
		}
	}
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	return failures("set limit", s.old.SetLimit(ctx, name, limit), s.next.SetLimit(ctx, name, limit))
}

// Check asks those of the two stores that are a driver.Checker whether their servers are fit to
// keep locks. The Node of a finding begins with old or new.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	return composite.Check(ctx, []composite.Part{{Name: "old", Store: s.old}, {Name: "new", Store: s.next}}, func(int) driver.Finding {
		return driver.Finding{Severity: driver.Danger, Reason: "it does not answer, so no lock can be acquired or renewed", Fix: "start it"}
	}), nil
}

// failures returns what the stores answered, or nil. An error of either has its meaning for both: a session
// that one of them ended is ended.
func failures(op string, old, next error) error {
	switch {
	case old != nil && next != nil:
		return fmt.Errorf("both: %s: old store: %w; new store: %w", op, old, next)
	case old != nil:
		return fmt.Errorf("both: %s: old store: %w", op, old)
	case next != nil:
		return fmt.Errorf("both: %s: new store: %w", op, next)
	}
	return nil
}

// inParallel runs both and waits for both.
func inParallel(f, g func()) {
	var other sync.WaitGroup
	other.Go(g)
	f()
	other.Wait()
}
