// SPDX-License-Identifier: Apache-2.0

package brokenlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/redis/go-redis/v9"
)

// locks is the plain lock with at most one flaw.
type locks struct {
	flaw  string
	id    string // of the owner, as the store has it
	ttl   time.Duration
	c     *redis.Client
	nodes []*redis.Client
}

// Open makes the lock that a spec with the kind broken:NAME asks for.
func Open(s lock.Spec) (lock.Locks, error) {
	l := &locks{flaw: strings.TrimPrefix(s.Kind, Prefix), id: s.Who, ttl: s.TTL}
	if _, ok := Named(l.flaw); !ok {
		return nil, fmt.Errorf("there is no broken lock %q", l.flaw)
	}
	for _, addr := range s.Reach() {
		l.nodes = append(l.nodes, redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DisableIdentity: true, MaxRetries: -1}))
	}
	l.c = l.nodes[0]
	switch l.flaw {
	case "owner-by-host":
		l.id = "host"
	case "owner-by-prefix":
		n, _ := strconv.Atoi(strings.Split(strings.TrimPrefix(s.Who, "c"), ".")[0])
		l.id = strings.Repeat("w", n+1)
	}
	return l, nil
}

// Close implements lock.Locks.
func (l *locks) Close(context.Context) error {
	for _, c := range l.nodes {
		_ = c.Close()
	}
	return nil
}

// call bounds one call to the store.
func (l *locks) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.ttl/3)
}

// Lock implements lock.Locks.
func (l *locks) Lock(ctx context.Context, name string) (lock.Held, error) {
	since := time.Now()
	if strings.HasPrefix(l.flaw, "queue-") {
		if err := l.enqueue(ctx, name); err != nil {
			return nil, err
		}
	}
	for {
		sent := time.Now()
		tok, err := l.try(ctx, name)
		switch {
		case err != nil && l.flaw == "error-means-granted" && ctx.Err() == nil:
			return l.hold(name, time.Now().UnixMicro(), sent), nil
		case err != nil && l.flaw == "ghost-is-renewed":
			// The answer was lost, the lock was not; its renewal goes on forever.
			l.hold(name, 0, sent)
		case err != nil:
			l.undo(name)
		case tok > 0:
			return l.hold(name, tok, sent), nil
		}
		if l.flaw == "impatient" && time.Since(since) > l.ttl/3 {
			_ = l.c.Del(ctx, name).Err()
		}
		if err := l.wait(ctx, name); err != nil {
			l.leave(name)
			return nil, err
		}
	}
}

// undo takes back what a call of unknown outcome may have done.
func (l *locks) undo(name string) {
	ctx, cancel := l.call(context.Background())
	defer cancel()
	_ = release.Run(ctx, l.c, []string{name}, l.id).Err()
}

// wait returns when another attempt may succeed.
func (l *locks) wait(ctx context.Context, name string) error {
	if l.flaw == "push-only" {
		// It subscribes before it polls, so it misses nothing until the
		// subscription breaks: messages published until it is back are lost.
		sub := l.c.Subscribe(ctx, name+":free")
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			return ctx.Err()
		}
		if n, err := l.c.Exists(ctx, name).Result(); err == nil && n == 0 {
			return nil
		}
		if _, err := sub.ReceiveMessage(ctx); err != nil {
			<-ctx.Done() // the message will never come
		}
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10*time.Millisecond + rand.N(10*time.Millisecond)):
		return nil
	}
}

// held is one acquisition.
type held struct {
	l        *locks
	name     string
	tok      int64
	ctx      context.Context
	cancel   context.CancelFunc
	stop     chan struct{}
	deadline atomic.Int64 // nanoseconds of the wall clock of this process, which is not stepped here
}

// hold starts the renewal of a lock that was granted by a call sent at an instant.
func (l *locks) hold(name string, tok int64, sent time.Time) *held {
	h := &held{l: l, name: name, tok: tok, stop: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	switch l.flaw {
	case "deadline-from-reply":
		sent = time.Now().Add(l.ttl / 10) // and nothing is left for clocks, as where this is found
	case "token-after-lock":
		// Trusted from the first call on it would be sound: the late token of one whose
		// lock has ended would be unused.
		sent = time.Now()
	}
	h.trust(sent)
	go h.renew()
	return h
}

// trust moves the deadline: a tenth is left for clocks and for stopping.
func (h *held) trust(sent time.Time) { h.deadline.Store(sent.Add(h.l.ttl * 9 / 10).UnixNano()) }

// Token implements lock.Held.
func (h *held) Token() int64 { return h.tok }

// Context implements lock.Held.
func (h *held) Context() context.Context { return h.ctx }

// Deadline implements lock.Held.
func (h *held) Deadline() time.Time {
	if h.l.flaw == "no-deadline" {
		return time.Now().Add(h.l.ttl)
	}
	return time.Unix(0, h.deadline.Load())
}

// Unlock implements lock.Held.
func (h *held) Unlock(ctx context.Context) error {
	if h.l.flaw != "renewal-outlives-unlock" {
		close(h.stop)
	}
	h.cancel()
	ctx, cancel := h.l.call(ctx)
	defer cancel()
	return h.l.release(ctx, h.name)
}
