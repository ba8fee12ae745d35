// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Break implements driver.Store. The fence must lie above every token given out and
// below every later one, on every majority. So the counters are raised first, on a
// majority, and only then is anything broken: the next waiter gets a token
// above the fence.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	if err := ctx.Err(); err != nil {
		return 0, errNotStarted("break", err)
	}
	target, err := s.find(ctx, name, token)
	if err != nil {
		return 0, err
	}
	fence, err := s.raise(ctx, name)
	if err != nil {
		return 0, err
	}
	broke, err := every(ctx, s, "break", s.majority(), func(ctx context.Context, n int) (bool, error) {
		own, ok := target[n]
		if !ok {
			return false, nil
		}
		_, err := s.nodes[n].Store.Break(ctx, name, own)
		if errors.Is(err, driver.ErrNotHeld) {
			return false, nil // it has gone there since
		}
		return err == nil, err
	})
	if err != nil {
		return 0, err
	}
	for _, did := range broke {
		if did {
			return fence, nil
		}
	}
	return 0, notHeld(name, token)
}

func notHeld(name string, token driver.Token) error {
	return fmt.Errorf("quorum: %q with token %v: %w", name, token, driver.ErrNotHeld)
}

// find returns which token each node knows the holder by: the one that a majority shows
// with that token.
func (s *Store) find(ctx context.Context, name string, token driver.Token) (map[int]driver.Token, error) {
	got, err := every(ctx, s, "break", s.majority(), func(ctx context.Context, n int) (driver.Status, error) {
		return s.nodes[n].Store.Inspect(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	lists := map[int][]driver.Holder{}
	for n, st := range got {
		lists[n] = st.Holders
	}
	own := map[int]driver.Token{}
	for _, g := range merged(lists) {
		if g.nodes.Len() < s.majority() || g.holder(s.majority()).Token.Base() != token.Base() {
			continue
		}
		i := 0
		for _, n := range nodesOf(lists) {
			if g.nodes.Has(n) {
				own[n] = g.shown[i].Token
				i++
			}
		}
	}
	if len(own) == 0 {
		return nil, notHeld(name, token)
	}
	return own, nil
}

// maxRaises bounds how often a break raises: each time others may have been faster.
const maxRaises = 10

// raise makes every later token of a name, on a majority, higher than the fence it
// returns, which is higher than every token so far.
func (s *Store) raise(ctx context.Context, name string) (driver.Token, error) {
	floor := driver.Token(driver.TokenStep)
	for range maxRaises {
		// A call of an earlier round may still be on its way, or its session about to be
		// closed: each has its own floor and session.
		asked, id := floor, driver.NewSessionID()
		tops, err := every(ctx, s, "break", s.majority(), func(ctx context.Context, n int) (driver.Token, error) {
			return s.raiseAt(ctx, n, id, name, asked)
		})
		if err != nil {
			return 0, err
		}
		top := driver.Token(0)
		for _, t := range tops {
			top = max(top, t)
		}
		// Once raised, nodes report the floor's own predecessor, or more if others
		// were granted since.
		if fence := floor - driver.TokenStep; fence > 0 && top <= fence {
			return fence, nil
		}
		s.sawToken(top)
		floor = s.next() + driver.TokenStep
	}
	return 0, fmt.Errorf("quorum: break: new holders are granted faster than they can be fenced; try again: %w", driver.ErrUnavailable)
}

// probeTTL is how long the session lives that a raise needs.
const probeTTL = 5 * time.Second

// raiseAt raises the counter of a name on a node by an attempt that need not be
// granted, and returns the highest token before.
func (s *Store) raiseAt(ctx context.Context, n int, id driver.SessionID, name string, floor driver.Token) (driver.Token, error) {
	ttl := max(probeTTL, s.caps.MinTTL)
	if s.caps.MaxTTL > 0 {
		ttl = min(ttl, s.caps.MaxTTL)
	}
	drv, _, err := s.nodes[n].Store.Open(ctx, driver.OpenRequest{Shard: s.Shard(name), ID: id, TTL: ttl})
	if err != nil {
		return 0, err
	}
	// On a node where the lock is free the probe now holds it. The probe must release it even
	// if the answer did not arrive in time, so Close gets its own context.
	defer func() { _ = drv.Close(s.bound()) }()
	c := driver.Claim{Seq: 1, Name: name, Floor: floor,
		Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "quorum", Reason: "break"}}}
	out, err := drv.Attempt(ctx, &c)
	if out.State == driver.Granted {
		out.Token -= driver.TokenStep // free there: it got the next one
	}
	return out.Token, err
}
