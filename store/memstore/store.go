// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// DefaultMaxTTL is the longest session allowed unless Options say otherwise.
const DefaultMaxTTL = time.Minute

// Options change what the store can do. The zero value is a store with one
// shard, a queue, pushes and no grace.
type Options struct {
	// Shards is the number of shards names are spread over. Default 1.
	Shards int
	// Now is the store's clock. Default time.Now.
	Now func() time.Time
	// MinTTL and MaxTTL bound the TTL of sessions. Defaults: 0 and
	// DefaultMaxTTL. With Grace, MaxTTL is also how long grace lasts.
	MinTTL, MaxTTL time.Duration
	// Grace makes a new incarnation wait until every earlier session must have
	// ended before it grants anything new.
	Grace bool
	// NoPush makes Await return at once, as on a server that can only be
	// polled.
	NoPush bool
	// NoQueue keeps no queue, as on a server that only knows "taken".
	NoQueue bool
}

// Store is a store in memory. Make one with New. It is safe for
// concurrent use.
type Store struct {
	opts   Options
	offset atomic.Int64 // StepClock, in nanoseconds
	shards []*shard
}

var _ driver.Store = (*Store)(nil)

// New returns an empty store. A nil opts is fine.
func New(opts *Options) *Store {
	s := &Store{}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Shards <= 0 {
		s.opts.Shards = 1
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.MaxTTL <= 0 {
		s.opts.MaxTTL = DefaultMaxTTL
	}
	for range s.opts.Shards {
		s.shards = append(s.shards, newShard(s.now, s.notice()))
	}
	return s
}

// StepClock moves the store's clock by d, forward or back, as an operator or
// a time daemon does.
func (s *Store) StepClock(d time.Duration) { s.offset.Add(int64(d)) }

func (s *Store) now() time.Time { return s.opts.Now().Add(time.Duration(s.offset.Load())) }

// notice is how soon holders are notified. A server without a queue does not know who waits.
func (s *Store) notice() driver.Notice {
	switch {
	case s.opts.NoQueue:
		return driver.NoNotice
	case s.opts.NoPush:
		return driver.NoticeAtRenewal
	}
	return driver.NoticeAtOnce
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := driver.Caps{
		Engine:    "memory",
		Fencing:   driver.Strict,
		Grace:     s.opts.Grace,
		Queue:     !s.opts.NoQueue,
		Push:      !s.opts.NoPush && !s.opts.NoQueue,
		Contended: s.notice(),
		Linger:    s.notice() == driver.NoticeAtOnce,
		Shared:    true,
		Reentry:   true,
		Hold:      true,
		Listing:   true,
		Floor:     true,
		MinTTL:    s.opts.MinTTL,
		MaxTTL:    s.opts.MaxTTL,
	}
	if !s.opts.Grace {
		c.Advice = "open it with grace=true in its URL (Options{Grace: true})"
	}
	return c
}

// Shard implements driver.Store.
func (s *Store) Shard(name string) string {
	if len(s.shards) == 1 {
		return "0"
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return strconv.Itoa(int(h.Sum32() % uint32(len(s.shards))))
}

func (s *Store) shardOf(name string) *shard {
	sh, _ := s.shard(s.Shard(name))
	return sh
}

func (s *Store) shard(id string) (*shard, error) {
	i, err := strconv.Atoi(id)
	if err != nil || i < 0 || i >= len(s.shards) {
		return nil, fmt.Errorf("memstore: no shard %q: %w", id, driver.ErrRefused)
	}
	return s.shards[i], nil
}

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Renewal{}, ended("open", err)
	}
	sh, err := s.shard(req.Shard)
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	if req.TTL < s.opts.MinTTL || req.TTL > s.opts.MaxTTL || req.TTL <= 0 {
		return nil, driver.Renewal{}, fmt.Errorf("memstore: TTL %v is not within %v and %v (Options.MinTTL, MaxTTL): %w",
			req.TTL, s.opts.MinTTL, s.opts.MaxTTL, driver.ErrRefused)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.open(req)
	return &session{store: s, sh: sh, id: req.ID, incarnation: sh.incarnation}, l.renewal(sh.clock()), nil
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := ctx.Err(); err != nil {
		return driver.Status{}, ended("inspect", err)
	}
	sh := s.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := sh.sweep()
	st := sh.refresh(name, now).status(now)
	st.Name, st.Limit, st.Grace = name, sh.limits[name], sh.grace(now)
	sh.tidy(name)
	return st, nil
}

// Break implements driver.Store.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	if err := ctx.Err(); err != nil {
		return 0, ended("break", err)
	}
	sh := s.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := sh.sweep()
	defer sh.tidy(name)
	return sh.breakGrant(sh.refresh(name, now), token, now)
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	if err := ctx.Err(); err != nil {
		return ended("set limit", err)
	}
	if limit < 0 {
		return fmt.Errorf("memstore: limit %d is below 0: %w", limit, driver.ErrRefused)
	}
	sh := s.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := sh.sweep()
	if limit == 0 {
		delete(sh.limits, name)
	} else {
		sh.limits[name] = limit
	}
	sh.refresh(name, now)
	sh.tidy(name)
	return nil
}

// ended wraps the error of a context that was over before anything was done.
func ended(op string, err error) error { return fmt.Errorf("memstore: %s: %w", op, err) }
