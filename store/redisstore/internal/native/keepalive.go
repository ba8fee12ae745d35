// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// keepAlive keeps a session alive with plain commands, which cost the server about half of
// what a script costs:
//
//	ZADD sessions XX GT CH end session · HMGET bucket marker session broken · TIME · SCRIPT EXISTS proof
//
// The session is kept alive if its end was there and was moved, and if the replies show that a
// script would have moved it: the marker is that of the session's incarnation, the session has
// its generation and no broken claims, and the server knows a script that was loaded only under
// its run id. Anything else is decided by keepalive.lua.
//
// XX brings no session back that was closed or swept, and GT makes a call that arrives late
// harmless: the end is computed here, and an earlier one must not replace a later one.
//
// The end is moved first, so that the replies behind it are as of then or later, and package
// redismodel finds that commands of others between them do no harm. So no transaction is needed: it
// would cost the server a sixth of the call. On a cluster it is one, because TIME and SCRIPT have
// no key that leads them to the right server.
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

// lives reports whether the session has not ended.
func (k *keepAlive) lives() bool { return k.end.Load() > k.earliest() }

// clock is what the server's clock shows if it showed a time so long ago.
func (s *Store) clock(server, then time.Time) time.Time {
	if s.switches.clock != nil {
		return s.switches.clock()
	}
	return server.Add(time.Since(then))
}

// KeepAlive implements driver.Session.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	renewal, ok, err := s.alive.plain(ctx)
	if err == nil && !ok {
		renewal, err = s.alive.script(ctx)
	}
	if moves(err) {
		if renewal, ok := s.alive.apart(ctx); ok {
			return renewal, nil
		}
	}
	if err == nil {
		s.expire()
	}
	return renewal, err
}

func (k *keepAlive) script(ctx context.Context) (driver.Renewal, error) {
	s, sent := k.s, time.Now()
	reply, err := s.call(ctx, keepAliveScript, nil)
	if err != nil {
		return driver.Renewal{}, err
	}
	r := rediscmd.Reader{Rest: reply[1:]}
	renewal := driver.Renewal{TTL: s.ttl, Broken: r.Broken(), Clock: r.Clock()}
	f := found{dead: r.Number() > 0, due: r.Number() > 0}
	settings := known{grace: r.Number() == 1, maxTTL: r.Millis()}
	if r.Err() != nil {
		return driver.Renewal{}, r.Err()
	}
	settings.incarnation = rediscmd.NumberOf(s.tail[7:])
	s.store.seen.note(s.base, settings)
	k.note(renewal.Clock, sent, renewal.Clock.UnixMilli()+s.ttl.Milliseconds())
	if s.sweeper.due() {
		s.sweeper.begin(f)
	}
	return renewal, nil
}

// plain keeps the session alive with plain commands. It reports whether it did.
func (k *keepAlive) plain(ctx context.Context) (renewal driver.Renewal, ok bool, err error) {
	s := k.s
	before := k.end.Load()
	if !s.proof.proven() || k.latest() >= before {
		return renewal, false, nil
	}
	sent, ttl := time.Now(), (s.ttl + time.Millisecond - 1).Milliseconds()
	end := k.latest() + ttl
	c := rediscmd.Commands{Transaction: s.store.client.Sharded()}
	c.Add(k.move(end)...)
	c.Add(k.read()...)
	c.Add("TIME")
	c.Add("SCRIPT", "EXISTS", s.plain.proven)
	checks := s.sweeper.due()
	if checks {
		for _, set := range []string{":s", ":k"} {
			c.Add("ZCOUNT", s.base+set, "-inf", strconv.FormatInt(k.earliest(), 10))
		}
	}
	err = s.store.client.Send(ctx, &c)
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, driver.ErrUnknown):
		return renewal, false, s.store.explain(err)
	default: // The script answers why, and runs even if the server's memory is full.
		return renewal, false, nil
	}
	took := time.Since(sent)
	stands := k.stands(&c, &c)
	now, proven := time.Unix(c.Number(), 1000*c.Number()), c.Number() == 1
	switch {
	case c.Err() != nil:
	case !proven:
		s.proof.lost()
	case !stands:
	case end < now.UnixMilli()+ttl-took.Milliseconds(): // the clock was moved: the end is early
	case now.UnixMilli() >= before:
		return renewal, false, k.late(ctx)
	default:
		k.note(now, sent, end)
		if now.UnixMilli()-s.plain.checked.Load() > longUnchecked.Milliseconds() {
			s.plain.refill()
		}
		if checks {
			s.sweeper.begin(found{dead: c.Number() > 0, due: c.Number() > 0})
		}
		return driver.Renewal{TTL: s.ttl, Clock: now}, true, nil
	}
	return renewal, false, nil
}

// stands reports whether the replies to move and read show that the session goes on and no
// claim of it was broken.
func (k *keepAlive) stands(move, read *rediscmd.Commands) bool {
	moved, marker, session, broken := move.Number(), read.Text(), read.Text(), read.Text()
	if len(marker) < markerHead || len(session) < sessionHead {
		return false
	}
	k.s.plain.checked.Store(rediscmd.NumberOf(marker[8:14]))
	if marker[:7] != k.s.tail[7:] {
		return false // and what it says is not what this process knows, which the next incarnation needs
	}
	k.s.store.seen.note(k.s.base, knownOf(marker))
	return moved == 1 && broken == "" && session[6:13] == k.s.tail[:7]
}

// longUnchecked is after how long without a check of the replication id a session that holds locks and takes no new ones
// has it checked. Within ten minutes a new id of a master that a replica connected to is known as such (lib.lua).
const longUnchecked = 5 * time.Minute

// moves reports whether a call was rejected because its keys are on two nodes, or on another
// one: their slot moves.
func moves(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "TRYAGAIN") || strings.Contains(text, "ASK ") || strings.Contains(text, "MOVED ")
}

// apart keeps the session alive while its slot moves, which may take longer than its TTL: each
// key is found by itself, wherever it is, and what needs several keys waits. The proof is left
// out, because the keys are on servers with two run ids. It is needed to grant, which this
// does not; the next call with all keys finds that the server is another.
func (k *keepAlive) apart(ctx context.Context) (driver.Renewal, bool) {
	client, before := k.s.store.client, k.end.Load()
	end := k.latest() + k.s.ttl.Milliseconds()
	var move, read rediscmd.Commands
	move.Add(k.move(end)...)
	read.Add(k.read()...)
	if client.Send(ctx, &move) != nil || client.Send(ctx, &read) != nil || !k.stands(&move, &read) || k.latest() >= before {
		return driver.Renewal{}, false
	}
	k.end.Store(end)
	return driver.Renewal{TTL: k.s.ttl}, true
}

// move moves the end of the session.
func (k *keepAlive) move(end int64) []string {
	return []string{"ZADD", k.s.base + ":s", "XX", "GT", "CH", strconv.FormatInt(end, 10), k.s.sid}
}

// read reads whether the session goes on.
func (k *keepAlive) read() []string {
	return []string{"HMGET", k.s.base, "m", k.s.plain.field, "k" + k.s.sid}
}

// late ends a session that had ended when its end was moved: its locks may have been granted
// to others in between.
func (k *keepAlive) late(ctx context.Context) error {
	err := fmt.Errorf("redisstore: the keep-alive arrived after the end of the session: %w", driver.ErrGone)
	_, _ = k.s.call(ctx, closeScript, nil, "0") // or it ends by itself; what it held is swept
	k.s.heard(err)
	return err
}
