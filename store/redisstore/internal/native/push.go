// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// pushes hands what arrives on the session's channel to the claims that wait.
// The subscription begins with the first claim that waits: a process that never
// waits never subscribes.
type pushes struct {
	s       *session
	channel string
	gaps    atomic.Int64 // how often a subscription began

	mu         sync.Mutex
	started    bool
	over       error // why the subscription ended
	waiting    map[uint64]*waiting
	gapsAtPoll map[uint64]int64  // gaps there had been when a claim polled last
	early      map[uint64]pushed // pushed before its claim waited
}

// maxEarly is how many pushes are kept for claims that do not wait yet.
const maxEarly = 1024

// waiting is a claim in Await.
type waiting struct {
	granted chan pushed
	poll    chan struct{}
}

func (p *pushes) init(s *session) {
	p.s = s
	p.channel = s.base + ":p:" + s.sid
	p.waiting = map[uint64]*waiting{}
	p.early = map[uint64]pushed{}
	p.gapsAtPoll = map[uint64]int64{}
}

// heard ends the subscription when the store has answered that the session is over or
// was reset: waiters must come back with the next session.
func (p *pushes) heard(err error) {
	if errors.Is(err, driver.ErrReset) || errors.Is(err, driver.ErrGone) {
		p.mu.Lock()
		if p.over == nil {
			p.over = err
		}
		p.mu.Unlock()
		p.s.cancel()
	}
	if errors.Is(err, driver.ErrGone) {
		// It is not resumed, and a quorum goes on under another id without closing it.
		p.s.store.known.CompareAndDelete(p.s.sid, p.s)
	}
}

func (p *pushes) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		return p.over
	}
	return fmt.Errorf("redisstore: closed: %w", driver.ErrGone)
}

// wait registers a claim before anything is read, so that no push can fall between.
func (p *pushes) wait(seq uint64) *waiting {
	w := &waiting{granted: make(chan pushed, 1), poll: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[seq] = w
	if token, ok := p.early[seq]; ok {
		delete(p.early, seq)
		w.granted <- token
	}
	if p.gapsAtPoll[seq] != p.gaps.Load() {
		// A subscription began after the claim polled, while it did not wait:
		// a push may have been before.
		w.poll <- struct{}{}
	}
	if !p.started {
		p.started = true
		p.s.store.client.Listen(p.s.ctx, p.s.store.channel(p.channel), p.ready, p.message)
	}
	return w
}

func (p *pushes) leave(seq uint64, w *waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[seq] == w {
		delete(p.waiting, seq)
	}
}

// notePoll notes how many gaps there had been when a queued claim polled.
func (p *pushes) notePoll(seq uint64, gaps int64) {
	p.mu.Lock()
	p.gapsAtPoll[seq] = gaps
	p.mu.Unlock()
}

// done drops a claim.
func (p *pushes) done(seq uint64) {
	p.mu.Lock()
	delete(p.gapsAtPoll, seq)
	delete(p.early, seq)
	p.mu.Unlock()
}

// ready makes every claim poll: what was pushed before the subscription, or in a
// gap of it, is lost.
func (p *pushes) ready() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gaps.Add(1)
	for _, w := range p.waiting {
		select {
		case w.poll <- struct{}{}:
		default:
		}
	}
}

// pushed is what a push reports about a grant.
type pushed struct {
	token driver.Token
	since string // 6 bytes if plain commands may remove the grant
}

// message is a number of a claim in 6 bytes and a counter in 7: a claim was granted. Since
// when follows if plain commands may remove the grant.
func (p *pushes) message(text string) {
	if len(text) != 13 && len(text) != 19 {
		return // not ours
	}
	seq, counter := uint64(rediscmd.NumberOf(text[:6])), rediscmd.NumberOf(text[6:13])
	if counter <= rediscmd.NumberOf(p.s.tail[7:]) {
		return // of an earlier incarnation: a master that was replaced still sends to its replicas
	}
	grant := pushed{driver.Token(counter * driver.TokenStep), text[13:]}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.waiting[seq]; w != nil {
		select {
		case w.granted <- grant:
		default:
		}
		return
	}
	// Between its attempt and its wait, or withdrawn by now: seqs are never used again, so those
	// left over stay until there are many. What may be lost with them is a gap: its claim polls.
	if len(p.early) == maxEarly {
		clear(p.early)
		p.gaps.Add(1)
	}
	p.early[seq] = grant
}
