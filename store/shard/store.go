// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/composite"
)

// Store is a driver.Store made of several. Make one with New. It is safe for
// concurrent use.
type Store struct {
	members  []Member // by name, so that the order they are given in does not matter
	caps     driver.Caps
	register *register
}

var _ driver.Store = (*Store)(nil)

// Options are the settings of a store; nil stands for the defaults. No setting exists yet.
type Options struct{}

// New returns a store that spreads names over the members by their names. The
// order of the list does not matter. It fails if a name is missing, bad or used
// twice, or if no TTL suits all members, or if they differ in Caps.Queue or
// Caps.Push. It does no I/O. The members' stores stay the caller's.
func New(given []Member, _ *Options) (*Store, error) {
	members, err := checked(given)
	if err != nil {
		return nil, err
	}
	s := &Store{members: members}
	if s.caps, err = weakest(members); err != nil {
		return nil, err
	}
	s.register = newRegister(members, s.caps.MaxTTL)
	return s, nil
}

// Caps implements driver.Store: what every member can do. Fencing and Durability
// are those of the weakest member. Grace is set if some members have a grace period
// and the others are durable: grants then survive a crash on each of them.
func (s *Store) Caps() driver.Caps { return s.caps }

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	p, inner, ok := s.parseShard(req.Shard)
	switch {
	case !ok:
		return nil, driver.Renewal{}, fmt.Errorf("shard: no member for shard %q: %w", req.Shard, driver.ErrRefused)
	case req.TTL < s.caps.MinTTL || s.caps.MaxTTL > 0 && req.TTL > s.caps.MaxTTL:
		// The member itself may allow it; then the same TTL would work for some
		// names and not for others.
		return nil, driver.Renewal{}, fmt.Errorf("shard: TTL %v is not within %v and %v, the bounds of all members: %w",
			req.TTL, s.caps.MinTTL, s.caps.MaxTTL, driver.ErrRefused)
	case ctx.Err() != nil:
		return nil, driver.Renewal{}, fmt.Errorf("shard: open: %w", ctx.Err())
	}
	key := sessionKey{req.Shard, req.ID}
	undo, err := s.register.enter(ctx, key, req.TTL, p)
	if err != nil {
		undo()
		return nil, driver.Renewal{}, err
	}
	req.Shard = inner
	if before, ok := req.Before.(*session); ok {
		req.Before = before.Session
	}
	drv, renewal, err := p.to.Store.Open(ctx, req)
	if err != nil {
		undo()
		return nil, renewal, err
	}
	return &session{Session: drv, r: s.register, key: key, e: s.register.entry(p.to), ttl: req.TTL}, renewal, nil
}

// Inspect implements driver.Store. A name that moves is read at both of its members.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	var first driver.Status
	for i, m := range s.place(name).members() {
		st, err := m.Store.Inspect(ctx, name)
		if err != nil || len(st.Holders) > 0 || st.Waiting > 0 {
			return st, err
		}
		if i == 0 {
			first = st
		}
	}
	return first, nil
}

// Break implements driver.Store. A name that moves is broken at the member that has the
// token.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (t driver.Token, err error) {
	for _, m := range s.place(name).members() {
		t, err = m.Store.Break(ctx, name, token)
		if !errors.Is(err, driver.ErrNotHeld) {
			return t, err
		}
	}
	return t, err
}

// SetLimit implements driver.Store. A stored limit does not move with its name.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	p := s.place(name)
	switch {
	case strings.HasPrefix(name, reserved):
		return errReserved("set limit")
	case p.moves() && !s.register.hasAdopted():
		return fmt.Errorf("shard: set limit: %q moves from member %s to %s; set the limit after the change: %w", name, p.from.Name, p.to.Name, driver.ErrUnavailable)
	}
	return p.to.Store.SetLimit(ctx, name, limit)
}

// errReserved refuses names that are the shard's own.
func errReserved(op string) error {
	return fmt.Errorf("shard: %s: names that start with %q are reserved; choose another name: %w", op, reserved, driver.ErrRefused)
}

// weakest returns what all members can do. It fails where no answer would be
// true for every name.
func weakest(members []Member) (driver.Caps, error) {
	caps := members[0].Store.Caps()
	var servers, advice, assumes []string
	for _, m := range members {
		c := m.Store.Caps()
		if c.Queue != caps.Queue || c.Push != caps.Push {
			// Whether turns are fair, or a wait is pushed, would depend on the
			// name of the lock.
			return caps, fmt.Errorf("shard: members %q and %q differ in Caps.Queue or Caps.Push; use members of one kind", members[0].Name, m.Name)
		}
		if !slices.Contains(servers, c.Engine) {
			servers = append(servers, c.Engine)
		}
		if c.Advice != "" {
			advice = append(advice, fmt.Sprintf("member %s: %s", m.Name, c.Advice))
		}
		if c.Assumes != "" && !slices.Contains(assumes, c.Assumes) {
			assumes = append(assumes, c.Assumes)
		}
		caps = composite.Common(caps, c)
	}
	if caps.MaxTTL > 0 && caps.MinTTL > caps.MaxTTL {
		return caps, errors.New("shard: no TTL suits all members: the greatest MinTTL is " +
			caps.MinTTL.String() + ", the least MaxTTL " + caps.MaxTTL.String())
	}
	caps.Engine = "shard of " + strings.Join(servers, ", ")
	caps.Advice = strings.Join(advice, "; ")
	caps.Assumes = strings.Join(assumes, "\n")
	return caps, nil
}

// Check asks every member whose store is a driver.Checker whether its servers are fit to keep
// locks. The Node of a finding begins with the name of the member. A member that does not
// answer is a finding (unreachable) and not an error: the names of the others can be locked.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	var all []composite.Part
	for _, m := range s.members {
		all = append(all, composite.Part{Name: m.Name, Store: m.Store})
	}
	return composite.Check(ctx, all, func(int) driver.Finding {
		return driver.Finding{Severity: driver.Danger, Reason: "it does not answer, so none of its names can be locked", Fix: "start it"}
	}), nil
}
