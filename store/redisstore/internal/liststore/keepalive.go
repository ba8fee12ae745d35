// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

// keepAlive keeps a session alive with plain commands, which cost the server about half of
// what a script costs:
//
//	MULTI · ZADD sessions XX GT CH end session · HMGET bucket marker session broken · TIME · SCRIPT EXISTS proof · EXEC
//
// The session is kept alive if its end was there and was moved, and if the replies show that a
// script would have moved it: the marker is that of the session's incarnation, the session has
// its generation and no broken claims, and the server knows a script that was loaded only under
// its run id. Anything else is decided by keepalive.lua.
//
// XX brings no session back that was closed or swept, and GT makes a call that arrives late
// harmless: the end is computed here, and an earlier one must not replace a later one.
type keepAlive struct {
	s     *session
	clock atomic.Pointer[reading]
	end   atomic.Int64 // of the session, in ms of the server's clock, at least
}

// reading is what the server's clock showed between two times.
type reading struct{ server, sent, received time.Time }

// note notes a reply in which the server's clock was.
func (k *keepAlive) note(server, sent time.Time, end int64) {
	k.clock.Store(&reading{server, sent, time.Now()})
	k.end.Store(end)
}

// earliest is what the server's clock shows at least, in ms.
func (k *keepAlive) earliest() int64 {
	c := k.clock.Load()
	return k.s.store.clock(c.server, c.received).UnixMilli()
}

// latest is what the server's clock shows at most, in ms.
func (k *keepAlive) latest() int64 {
	c := k.clock.Load()
	return k.s.store.clock(c.server, c.sent).UnixMilli() + 1
}

// clock is what the server's clock shows if it showed a time so long ago.
func (s *Store) clock(server, then time.Time) time.Time {
	if s.opts.Clock != nil {
		return s.opts.Clock()
	}
	return server.Add(time.Since(then))
}

// KeepAlive implements driver.Session.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	renewal, ok, err := s.alive.plain(ctx)
	if err == nil && !ok {
		renewal, err = s.alive.script(ctx)
	}
	return renewal, err
}

func (k *keepAlive) script(ctx context.Context) (driver.Renewal, error) {
	s, sent := k.s, time.Now()
	reply, err := s.call(ctx, keepAliveScript, nil)
	if err != nil {
		return driver.Renewal{}, err
	}
	r := wire.Reader{Rest: reply[1:]}
	renewal := driver.Renewal{TTL: s.ttl, Broken: r.Broken(), Clock: r.Clock()}
	dead := r.Number() == 1
	if r.Err() != nil {
		return driver.Renewal{}, r.Err()
	}
	k.note(renewal.Clock, sent, renewal.Clock.UnixMilli()+s.ttl.Milliseconds())
	if s.sweeper.due() && dead {
		s.sweeper.begin()
	}
	return renewal, nil
}

// plain keeps the session alive with plain commands. It reports whether it did.
func (k *keepAlive) plain(ctx context.Context) (renewal driver.Renewal, ok bool, err error) {
	s := k.s
	before := k.end.Load()
	if s.fast.proven == "" || !s.proof.done.Load() || k.latest() >= before {
		return renewal, false, nil
	}
	sent, ttl := time.Now(), (s.ttl + time.Millisecond - 1).Milliseconds()
	end := k.latest() + ttl
	sessions := s.base + ":s"
	c := Commands{Transaction: true}
	c.Add("ZADD", sessions, "XX", "GT", "CH", strconv.FormatInt(end, 10), s.sid)
	c.Add("HMGET", s.base, "m", s.fast.session, "k"+s.sid)
	c.Add("TIME")
	c.Add("SCRIPT", "EXISTS", s.fast.proven)
	checks := s.sweeper.due()
	if checks {
		c.Add("ZRANGEBYSCORE", sessions, "-inf", strconv.FormatInt(k.earliest(), 10), "LIMIT", "0", "1")
	}
	err = s.send(ctx, &c)
	took := time.Since(sent)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable) {
			return renewal, false, s.store.explain(err)
		}
		return renewal, false, nil // nothing was done; the script answers why
	}
	moved, marker, session, broken := c.number(), c.text(), c.text(), c.text()
	now, proven := time.Unix(c.number(), 1000*c.number()), c.number() == 1
	switch {
	case c.err() != nil:
	case !proven:
		s.proof.lost()
	case moved != 1 || broken != "":
	case len(marker) < 8 || marker[:7] != s.tail[7:]:
	case len(session) < 14 || session[6:13] != s.tail[:7]:
	case end < now.UnixMilli()+ttl-took.Milliseconds(): // the clock was moved: the end is early
	case now.UnixMilli() >= before:
		return renewal, false, k.late(ctx)
	default:
		k.note(now, sent, end)
		if checks && c.rest() > 0 {
			s.sweeper.begin()
		}
		return driver.Renewal{TTL: s.ttl, Clock: now}, true, nil
	}
	return renewal, false, nil
}

// late ends a session that had ended when its end was moved: its locks may have been granted
// to others in between.
func (k *keepAlive) late(ctx context.Context) error {
	err := fmt.Errorf("redisstore: the keep-alive arrived after the end of the session: %w", driver.ErrGone)
	_, _ = k.s.call(ctx, closeScript, nil) // or it ends by itself
	k.s.pushes.heard(err)
	return err
}
