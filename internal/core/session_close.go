// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/timing"
)

// leaveStore ends the session in the store, so that no other client waits for a
// TTL. After a loss it comes a margin later: a store that answers again just then
// would give the lock to another while the holder, notified a moment ago, is still
// stopping. That is so even if the store has ended the session: it may be made of
// several stores, and one of them has ended it.
//
// A session that Client.Close ends gives locks back, and Close answers for that:
// the call is repeated, and a failure is reported. Other sessions have nothing to
// give back, or their holders were notified of the loss; the store would find out
// by itself, and one call is enough.
func (s *session) leaveStore() {
	cause := context.Cause(s.ctx)
	if errors.Is(cause, ErrLost) {
		t := time.NewTimer(s.c.opts.Margin)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.c.done:
		}
	}
	s.sh.mu.Lock()
	drv, owing := s.drv, s.owing
	s.sh.mu.Unlock()
	if err := s.closeInStore(drv, owing); err != nil && owing {
		s.c.notGivenBack(err)
	}
}

// closeInStore ends the session in the store, with several tries if it must be
// certain. A store that was reset ends what it has of the session, which may be
// more than the client knows of, only after the session was opened again.
func (s *session) closeInStore(drv driver.Session, certain bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.c.opts.CallTimeout)
	defer cancel()
	for failures := 1; ; failures++ {
		err := s.callClose(ctx, drv)
		if errors.Is(err, driver.ErrReset) {
			var again driver.Session
			again, _, _, err = s.callOpen(ctx, s.c.opts.CallTimeout)
			if err == nil {
				drv = again
				err = s.callClose(ctx, drv)
			}
		}
		switch {
		case err == nil, errors.Is(err, driver.ErrGone):
			return nil
		case !certain, !Transient(err) && !errors.Is(err, driver.ErrReset):
			return err
		}
		if !Sleep(ctx, timing.Backoff(failures, s.c.opts.TTL/100, s.c.opts.TTL/12, rand.Float64())) {
			return err
		}
	}
}

func (s *session) callClose(ctx context.Context, drv driver.Session) error {
	ctx, cancel := context.WithTimeout(ctx, s.c.opts.CallTimeout)
	defer cancel()
	return drv.Close(ctx)
}

// notGivenBack notes what Close returns.
func (c *Client) notGivenBack(err error) {
	err = c.notClosed(fmt.Errorf("not confirmed: %w: %w", ErrUnavailable, err))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeErr = err
}
