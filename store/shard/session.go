// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// sessionKey identifies a session of a caller.
type sessionKey struct {
	shard string
	id    driver.SessionID
}

// session is a session of a member. It ends if another list is found in use.
type session struct {
	driver.Session
	r   *register
	key sessionKey
	e   *entry
	ttl time.Duration
}

// KeepAlive implements driver.Session. It also keeps the markers, that of its member first.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	began := time.Now()
	err := s.r.tick(s.e)
	if err == nil {
		err = s.r.cover(ctx, s.e, began.Add(s.ttl))
	}
	if errors.Is(err, driver.ErrRefused) {
		s.r.discard(s.key)
	}
	if err != nil {
		return driver.Renewal{}, gone(err)
	}
	renewal, err := s.Session.KeepAlive(ctx)
	if errors.Is(err, driver.ErrGone) {
		s.r.discard(s.key)
	}
	return renewal, err
}

// Attempt implements driver.Session. A member without our marker, because it had lost its
// data, is marked first.
func (s *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if strings.HasPrefix(c.Name, reserved) {
		return driver.Outcome{}, errReserved("attempt")
	}
	if err := s.r.ready(ctx, s.e); err != nil {
		return driver.Outcome{}, gone(err)
	}
	return s.Session.Attempt(ctx, c)
}

// gone is the error of a call for which no marker was kept because the process has no session: the caller's has ended, too. For an
// Open, which comes with a session of its own, the same is a reason to try again.
func gone(err error) error {
	if errors.Is(err, errNoSession) {
		return fmt.Errorf("%w: %w", errNoSession, driver.ErrGone)
	}
	return err
}

// Close implements driver.Session. The last session takes the markers along.
func (s *session) Close(ctx context.Context) error {
	began := time.Now()
	err := s.Session.Close(ctx)
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.r.leave(ctx, s.key, time.Since(began))
	}
	return err
}
