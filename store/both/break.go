// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Break implements driver.Store. The token is the new store's, or that of a process in phase old; Inspect
// shows it. The claim is broken in both stores, first in the old one: if a reply is lost, the new store still
// has the token, and Break can be repeated. An old store that cannot break keeps the claim until the
// holder's next renewal, or to the end of its TTL.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	var old, next driver.Status
	var oldErr, nextErr error
	inParallel(func() { old, oldErr = s.old.Inspect(ctx, name) }, func() { next, nextErr = s.next.Inspect(ctx, name) })
	if err := failures("break", oldErr, nextErr); err != nil {
		return 0, err
	}
	inOld, inNext := target(old.Holders, next.Holders, token)
	if inOld == 0 && inNext == 0 {
		return 0, fmt.Errorf("both: %q with token %v: %w", name, token, driver.ErrNotHeld)
	}
	var oldFence driver.Token
	if inOld != 0 {
		var err error
		oldFence, err = s.old.Break(ctx, name, inOld)
		only := inNext == 0 || !errors.Is(err, driver.ErrNotHeld) && !errors.Is(err, driver.ErrUnsupported)
		if err != nil && only {
			return 0, failures("break", err, nil)
		}
	}
	if inNext == 0 {
		return oldFence, nil
	}
	fence, err := s.next.Break(ctx, name, inNext)
	if err != nil {
		return 0, failures("break", nil, err)
	}
	return s.fence(ctx, name, oldFence, fence), nil
}

// fence is a token above those of both stores and below every later one, as far as the stores have floors: the one whose
// tokens are lower is raised. If that fails, a guard that was fenced with the token may reject a later
// holder, which is safe.
func (s *Store) fence(ctx context.Context, name string, old, next driver.Token) driver.Token {
	if old == 0 || !s.floored || !s.raises || old == next {
		return next
	}
	lower := s.old
	if old > next {
		lower = s.next
	}
	_ = raise(ctx, lower, name, max(old, next))
	return max(old, next)
}

// raiseTTL is the TTL of a session that raises a token.
const raiseTTL = 10 * time.Second

// raise makes the later tokens of a name be above one. The attempt raises them whatever its answer is; if the lock is free,
// it is held for a moment.
func raise(ctx context.Context, store driver.Store, name string, token driver.Token) error {
	caps := store.Caps()
	ttl := max(raiseTTL, caps.MinTTL)
	if caps.MaxTTL > 0 {
		ttl = min(ttl, caps.MaxTTL)
	}
	drv, _, err := store.Open(ctx, driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: ttl})
	if err != nil {
		return err
	}
	_, err = drv.Attempt(ctx, &driver.Claim{
		Seq: 1, Name: name, Floor: above(token),
		Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "fencelock", Reason: "a lock was broken"}},
	})
	return errors.Join(err, drv.Close(ctx))
}

// target returns the tokens by which the stores know the claim that has a token, 0 where it is not held. The old
// store's token counts only for a claim that the new store has not got: of any other it is not shown.
func target(old, next []driver.Holder, token driver.Token) (inOld, inNext driver.Token) {
	has := func(h driver.Holder) bool { return h.Token > 0 && h.Token.Base() == token.Base() }
	for _, h := range next { // several claims of one Reentry have one token
		if !has(h) {
			continue
		}
		inNext = h.Token
		if j := find(old, h); j >= 0 {
			return old[j].Token, inNext
		}
	}
	if inNext != 0 {
		return 0, inNext
	}
	at := slices.IndexFunc(old, func(h driver.Holder) bool { return has(h) && find(next, h) < 0 })
	if at < 0 {
		return 0, 0
	}
	return old[at].Token, 0
}
