// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// waiting is a claim in Await.
type waiting struct {
	granted chan pushed
	poll    chan struct{}
}

// pushed is what a push reports about a grant.
type pushed struct {
	token driver.Token
	since string // 6 bytes if plain commands may remove the grant
}

// Await implements driver.Session. What arrives on the session's channel is handed to the claim that waits. The subscription
// begins with the first claim that waits: a process that never waits never subscribes. The first time a claim waits after a
// subscription began, it polls: a push may have been before.
func (s *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	w := s.wait(c.Seq)
	defer s.leave(c.Seq, w)
	for {
		select {
		case p := <-w.granted:
			s.pushed(c, p)
			return driver.Outcome{State: driver.Granted, Token: p.token}, nil
		case <-w.poll:
			out, err := s.Attempt(ctx, c)
			if err != nil || out.State != driver.Queued {
				out.Remaining = 0
				return out, err
			}
		case <-ctx.Done():
			return driver.Outcome{}, fmt.Errorf("redisstore: await: %w", ctx.Err())
		case <-s.ctx.Done():
			return driver.Outcome{}, s.why()
		}
	}
}

// wait registers a claim before anything is read, so that no push can fall between.
func (s *session) wait(seq uint64) *waiting {
	w := &waiting{granted: make(chan pushed, 1), poll: make(chan struct{}, 1)}
	c := s.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.bySeq[seq]
	if k != nil {
		if k.waiting = w; k.early != nil {
			w.granted <- *k.early
			k.early = nil
		}
	}
	if k == nil || k.polled != c.gaps {
		// A subscription began after the claim polled, while it did not wait:
		// a push may have been before.
		w.poll <- struct{}{}
	}
	if c.pushes == unasked {
		c.pushes = asked
		s.store.client.Listen(s.ctx, s.store.channel(s.channel), s.subscribed, s.message)
	}
	return w
}

func (s *session) leave(seq uint64, w *waiting) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if k := s.claims.bySeq[seq]; k != nil && k.waiting == w {
		k.waiting = nil
	}
}

// subscribed makes every claim poll: what was pushed before the subscription, or in a
// gap of it, is lost.
func (s *session) subscribed() {
	c := s.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gaps++
	for _, k := range c.bySeq {
		if k.waiting != nil {
			select {
			case k.waiting.poll <- struct{}{}:
			default:
			}
		}
	}
}

// message is a number of a claim in 6 bytes and a counter in 7: a claim was granted. Since
// when follows if plain commands may remove the grant.
func (s *session) message(text string) {
	if len(text) != 13 && len(text) != 19 {
		return // not ours
	}
	seq, counter := uint64(rediscmd.NumberOf(text[:6])), rediscmd.NumberOf(text[6:13])
	if counter <= rediscmd.NumberOf(s.tail[7:]) {
		return // of an earlier incarnation: a master that was replaced still sends to its replicas
	}
	p := pushed{driver.Token(counter * driver.TokenStep), text[13:]}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	switch k := s.claims.bySeq[seq]; {
	case k == nil: // it was withdrawn
	case k.waiting == nil:
		k.early = &p // between its attempt and its wait
	default:
		select {
		case k.waiting.granted <- p:
		default:
		}
	}
}

// pushed notes what a push said.
func (s *session) pushed(c *driver.Claim, p pushed) {
	s.claims.mu.Lock()
	k := s.claims.bySeq[c.Seq]
	if k != nil {
		k.state, k.ticket, k.element = granted, int64(p.token)/driver.TokenStep, ""
		if p.since != "" {
			k.element = s.element("G"+p.since, k.seq, k.record)
		}
	}
	s.claims.mu.Unlock()
	if k != nil && c.Watch {
		s.watch(k)
	}
}

// heard gives the session up when the store has answered that it is over or
// was reset: waiters must come back with the next session.
func (s *session) heard(err error) {
	if errors.Is(err, driver.ErrReset) || errors.Is(err, driver.ErrGone) {
		s.claims.mu.Lock()
		if s.claims.over == nil {
			s.claims.over = err
		}
		s.claims.mu.Unlock()
		s.cancel()
	}
}

func (s *session) why() error {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	if s.claims.over != nil {
		return s.claims.over
	}
	return fmt.Errorf("redisstore: closed: %w", driver.ErrGone)
}
