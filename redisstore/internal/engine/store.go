// SPDX-License-Identifier: Apache-2.0

// Package engine is the store: layout, scripts and sessions, over any client
// library.
package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Options are the settings of a store; see redisstore.Options.
type Options struct {
	Namespace string
	MaxTTL    time.Duration
	Grace     bool
	Buckets   int
}

// Defaults of Options.
const (
	DefaultNamespace = "fencelock"
	DefaultMaxTTL    = time.Minute
	clusterBuckets   = 32
)

// minTTL is what a clock in milliseconds can carry with a margin.
const minTTL = 100 * time.Millisecond

// Store implements driver.Store.
type Store struct {
	client Client
	opts   Options
	// settings are agreed by all clients of a namespace, through the marker.
	settings string
	publish  string
	grace    string // in ms
	listings listings
}

var _ driver.Store = (*Store)(nil)

// New returns a store. It does no I/O.
func New(client Client, opts *Options) (*Store, error) {
	s := &Store{client: client, publish: "PUBLISH", grace: "0"}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Namespace == "" {
		s.opts.Namespace = DefaultNamespace
	}
	if s.opts.MaxTTL == 0 {
		s.opts.MaxTTL = DefaultMaxTTL
	}
	if s.opts.Buckets == 0 {
		s.opts.Buckets = 1
		if client.Sharded() {
			s.opts.Buckets = clusterBuckets
		}
	}
	if s.opts.MaxTTL < minTTL || s.opts.Buckets < 1 {
		return nil, fmt.Errorf("redisstore: MaxTTL is %v and Buckets %d; they must be at least %v and 1", s.opts.MaxTTL, s.opts.Buckets, minTTL)
	}
	if client.Sharded() {
		s.publish = "SPUBLISH"
	}
	if s.opts.Grace {
		s.grace = ms(s.opts.MaxTTL)
	}
	s.settings = fmt.Sprintf("v1 buckets=%d maxttl=%s grace=%t", s.opts.Buckets, s.opts.MaxTTL, s.opts.Grace)
	return s, nil
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := driver.Caps{
		Engine: "redis", Fencing: driver.Strict, Durability: driver.Volatile, Grace: s.opts.Grace,
		Queue: true, Push: true, Shared: true, Reentry: true, Hold: true, Listing: true, Floor: true,
		MinTTL: minTTL, MaxTTL: s.opts.MaxTTL,
	}
	if !s.opts.Grace {
		c.Advice = "open the namespace with redisstore.Options{Grace: true}"
	}
	return c
}

// Shard implements driver.Store: a shard is a bucket.
func (s *Store) Shard(name string) string {
	if s.opts.Buckets == 1 {
		return "0"
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return strconv.Itoa(int(h.Sum32() % uint32(s.opts.Buckets)))
}

// bucket is the key of a shard; everything of it is in its slot.
func (s *Store) bucket(shard string) string {
	return s.opts.Namespace + ":{" + s.opts.Namespace + ":" + shard + "}"
}

// call runs a script in a shard. own are the arguments after the common ones.
func (s *Store) call(ctx context.Context, script *Script, shard, incarnation string, own ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", script.Name, err)
	}
	reply, err := s.client.Eval(ctx, script, []string{s.bucket(shard)}, s.args(shard, incarnation, own))
	if err != nil {
		return nil, err
	}
	return reply, verdict(reply)
}

// args are the arguments of all scripts but fold.lua.
func (s *Store) args(shard, incarnation string, own []string) []string {
	args := make([]string, 0, 5+len(own))
	args = append(args, s.settings, incarnation, s.bucket(shard)+":p:", s.publish, s.grace)
	return append(args, own...)
}

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	if req.TTL < minTTL || req.TTL > s.opts.MaxTTL {
		return nil, driver.Life{}, fmt.Errorf("redisstore: TTL %v is not within %v and %v (Options.MaxTTL): %w",
			req.TTL, minTTL, s.opts.MaxTTL, driver.ErrRefused)
	}
	reply, err := s.call(ctx, openScript, req.Shard, "0", string(req.ID[:]), ms(req.TTL))
	if err != nil {
		return nil, driver.Life{}, err
	}
	r := reader{reply[1:]}
	ss := &session{store: s, shard: req.Shard, sid: string(req.ID[:]), ttl: req.TTL, incarnation: r.text()}
	r.number() // rest of grace
	life := driver.Life{TTL: req.TTL, Broken: r.broken()}
	runID := r.text()
	ss.epoch, ss.graceEnd = r.number(), r.text()
	life.Clock = r.clock()
	if err := r.err(); err != nil {
		return nil, driver.Life{}, err
	}
	ss.ctx, ss.cancel = context.WithCancel(context.Background())
	ss.life.init(ss, runID)
	ss.pushes.init(ss)
	ss.fold.init(ss)
	ss.sweeper.s = ss
	return ss, life, nil
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	all, err := s.inspect(ctx, s.Shard(name), []string{name})
	if err != nil {
		return driver.Status{}, err
	}
	return all[0], nil
}

// inspect asks for names of one shard.
func (s *Store) inspect(ctx context.Context, shard string, names []string) ([]driver.Status, error) {
	reply, err := s.call(ctx, inspectScript, shard, "0", append([]string{strconv.Itoa(driver.MaxWaitersTold)}, names...)...)
	if err != nil {
		return nil, err
	}
	r := reader{reply[1:]}
	grace := r.millis()
	all := make([]driver.Status, 0, len(names))
	for _, name := range names {
		st := driver.Status{Name: name, Grace: grace}
		for _, h := range r.list() {
			st.Holders = append(st.Holders, holder(h))
		}
		for _, w := range r.list() {
			st.Waiters = append(st.Waiters, waiter(w))
		}
		st.Waiting, st.Limit = int(r.number()), r.number()
		all = append(all, st)
	}
	return all, r.err()
}

// Break implements driver.Store.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	reply, err := s.call(ctx, breakScript, s.Shard(name), "0", name, counter(token))
	if err != nil {
		return 0, err
	}
	r := reader{reply[1:]}
	return r.token(), r.err()
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	if limit < 0 {
		return fmt.Errorf("redisstore: limit %d is below 0: %w", limit, driver.ErrRefused)
	}
	_, err := s.call(ctx, setLimitScript, s.Shard(name), "0", name, strconv.FormatInt(limit, 10))
	return err
}

// ms is a duration in milliseconds, rounded up: nothing ends early for it.
func ms(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

var errShort = errors.New("redisstore: the script's answer is shorter than the layout says")
