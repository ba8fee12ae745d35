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
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// Options are the options of redisstore and rueidisstore, where the fields are
// documented: each declares its own type, with the same fields, so that go doc shows them.
type Options struct {
	Namespace string
	Grace     bool
	MaxTTL    time.Duration
	Buckets   int

	Warn   func(driver.Finding)
	Accept []string
}

// switches are set by tests only (export_test.go).
type switches struct {
	clock          func() time.Time
	eager, batched bool
}

// Defaults of Options.
const (
	DefaultNamespace = "fencelock"
	DefaultMaxTTL    = 15 * time.Second // with grace, which is as long; the default TTL of a client is not longer
	plainMaxTTL      = time.Minute      // without
	clusterBuckets   = 32
)

// minTTL is what a clock in milliseconds can carry with a margin.
const minTTL = 100 * time.Millisecond

// Store is the store that redisstore.Store and rueidisstore.Store embed. Its methods are part of their API. It checks
// its servers before it opens the first session.
type Store struct {
	client   rediscmd.Client
	opts     Options
	close    func() error // nil if the client stays the caller's
	start    start
	ttl      atomic.Int64 // the longest TTL of a session that was opened here
	switches switches
	// layout is what this process was given, and found is that of the namespace as
	// an operator's call found it, if they differ.
	layout    layout
	found     atomic.Pointer[layout]
	asks      atomic.Pointer[asks] // what this process asks for, whatever the namespace has
	publish   string
	buckets   buckets
	agreed    atomic.Bool // the first bucket has our layout
	starter   graceStarter
	listings  rediscmd.Listings
	runs      runs
	contended contended
	seen      seen
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Configurer = (*Store)(nil)
)

// New returns a store over a client. closeClient is nil if the client stays the
// caller's. It does no I/O.
func New(client rediscmd.Client, opts *Options, closeClient func() error) (*Store, error) {
	s := &Store{client: client, close: closeClient, publish: "PUBLISH"}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Namespace == "" {
		s.opts.Namespace = DefaultNamespace
	}
	declared := s.opts.MaxTTL
	if s.opts.MaxTTL == 0 {
		s.opts.MaxTTL = plainMaxTTL
		if s.opts.Grace {
			s.opts.MaxTTL, declared = DefaultMaxTTL, DefaultMaxTTL
		}
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
	if strings.ContainsAny(s.opts.Namespace, "{}") {
		return nil, fmt.Errorf("redisstore: the namespace %q has a brace, which decides where a cluster keeps a key; use another character", s.opts.Namespace)
	}
	if err := storekit.Accepts(s.opts.Accept, codes); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	s.start.gate = storekit.Gate{Package: "redisstore", Engine: "redis", Accept: s.opts.Accept, Never: neverAccepted, Passing: notRefused, Warn: s.opts.Warn}
	if client.Sharded() {
		s.publish = "SPUBLISH"
	}
	s.buckets.namespace = s.opts.Namespace
	s.layout = layout{s.opts.Buckets}
	s.asks.Store(&asks{grace: s.opts.Grace, maxTTL: declared})
	return s, nil
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := driver.Caps{
		Engine: "redis", Fencing: driver.Strict, Durability: driver.Volatile, Grace: s.opts.Grace,
		Queue: true, Push: true, Contended: driver.NoticeAtOnce, Linger: true, Shared: true, Reentry: true, Hold: true, Listing: true, Floor: true,
		MinTTL: minTTL, MaxTTL: s.opts.MaxTTL, Assumes: s.assumes(),
	}
	if !s.opts.Grace {
		c.Advice = "open the namespace with grace=true in its URL (Options{Grace: true})"
	}
	return c
}

// assumes returns which clocks must agree, and for what: the counter of a new incarnation
// begins at the clock in µs, with grace at what it will be when that ends, and counts up
// by less than one a µs. It also returns what grace cannot see: a master that was cut off with
// a holder keeps its session alive for as long as it may write, while the one that was
// promoted waits for one MaxTTL.
func (s *Store) assumes() string {
	const text = "Tokens keep increasing through a data loss or a failover if the clock of the new server is not behind the old server's by more than "
	if !s.opts.Grace {
		return text + "the restart or failover takes."
	}
	return text + fmt.Sprintf("%v, its max_ttl (Options.MaxTTL).\nTwo holders do not overlap in time after a failover if the old master is down or stops accepting writes"+
		" (min-replicas-to-write; in a cluster by itself) within %v minus the TTL.", s.opts.MaxTTL, s.opts.MaxTTL)
}

// Shard implements driver.Store: a shard is a bucket.
func (s *Store) Shard(name string) string { return s.layout.shard(name) }

// none ends the key of a bucket that never exists. Every script declares it. A server that moves the slot of a bucket
// checks each key once more when the script uses it, and stops the script at one that is not there: also at a list whose last
// element the script has just removed. What the script wrote before stays then. If a declared key is missing the server
// rejects the call as a whole, with TRYAGAIN, and this one is always missing.
const none = ":none"

// keys are the keys of a bucket and of some names in it, as scripts expect them.
func keys(base string, names []string) []string {
	keys := make([]string, 0, 5+2*len(names))
	keys = append(keys, base, base+":t")
	for _, name := range names {
		keys = append(keys, base+":l:"+name, base+":g:"+name)
	}
	return append(keys, base+none, base+":k", base+":s")
}

// channel is where messages for a session are published: in a cluster at the node of its bucket.
func (s *Store) channel(name string) rediscmd.Channel {
	return rediscmd.Channel{Name: name, Sharded: s.client.Sharded()}
}

// call runs a script in a shard. own are the arguments after the common ones.
func (s *Store) call(ctx context.Context, script *rediscmd.Script, shard, incarnation string, names []string, own ...string) ([]any, error) {
	return s.callWith(ctx, s.layout, script, shard, names, incarnation, own...)
}

// callWith is call with a layout that is not that of this process.
func (s *Store) callWith(ctx context.Context, set layout, script *rediscmd.Script, shard string, names []string, incarnation string, own ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", script.Name, err)
	}
	base := s.buckets.key(shard, set.buckets)
	if incarnation == "0" {
		incarnation = s.seen.of(base).incarnationText()
	}
	reply, err := s.client.Eval(ctx, script, keys(base, names), s.args(set, base, incarnation, own))
	if err != nil {
		return nil, s.explain(err)
	}
	return reply, s.verdict(reply)
}

// explain adds to an error the permissions that the user of the connection lacks.
func (s *Store) explain(err error) error {
	if err == nil || !rediscmd.Forbidden(err) {
		return err
	}
	return fmt.Errorf("%w; add what the store needs: %s", err, s.grant())
}

// verdict is what the first word of a reply means.
func (s *Store) verdict(reply []any) error {
	err := verdict(reply)
	var other *layoutError
	if errors.As(err, &other) {
		other.namespace = s.opts.Namespace
	}
	return err
}

// args are the arguments of a script.
func (s *Store) args(set layout, base, incarnation string, own []string) []string {
	return append(s.appendArgs(make([]string, 0, len(common)+len(own)), set, base, incarnation), own...)
}

// appendArgs appends the arguments that all scripts have.
func (s *Store) appendArgs(args []string, set layout, base, incarnation string) []string {
	return append(args, set.String(), incarnation, base+":p:", s.publish, s.own().and(s.seen.strongest(base)).text())
}

// Open implements driver.Store. It opens no session at a server that cannot keep
// locks; the error wraps driver.ErrRefused and names the reason and the setting to
// change. After that is changed the next Open succeeds.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if before := s.ttl.Load(); int64(req.TTL) > before {
		s.ttl.CompareAndSwap(before, int64(req.TTL)) // or another session does
	}
	if err := CheckAtStart(ctx, s); err != nil {
		return nil, driver.Renewal{}, err
	}
	return s.open(ctx, req)
}

// open opens a session.
func (s *Store) open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if req.TTL < minTTL || req.TTL > s.opts.MaxTTL {
		return nil, driver.Renewal{}, fmt.Errorf("redisstore: TTL %v is not within %v and %v (Options.MaxTTL): %w",
			req.TTL, minTTL, s.opts.MaxTTL, driver.ErrRefused)
	}
	if err := s.agree(ctx, req.Shard); err != nil {
		return nil, driver.Renewal{}, err
	}
	s.declare(req.TTL)
	sent := time.Now()
	reply, err := s.call(ctx, openScript, req.Shard, "0", nil, string(req.ID[:]), ms(req.TTL), s.own().text())
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	r := rediscmd.Reader{Rest: reply[1:]}
	ss := &session{store: s, shard: req.Shard, base: s.buckets.key(req.Shard, s.opts.Buckets), sid: string(req.ID[:]), ttl: req.TTL, incarnation: r.Text()}
	graceOver := r.Number() == 0
	renewal := driver.Renewal{TTL: req.TTL, Broken: r.Broken()}
	runID := r.Text()
	ss.generation = r.Number()
	renewal.Clock = r.Clock()
	ss.fresh = r.Number() == 1
	settings := known{grace: r.Number() == 1, maxTTL: r.Millis()}
	if err := r.Err(); err != nil {
		return nil, driver.Renewal{}, err
	}
	incarnation, _ := strconv.ParseInt(ss.incarnation, 10, 64)
	ss.tail = rediscmd.BytesOf(ss.generation, 7) + rediscmd.BytesOf(incarnation, 7)
	settings.incarnation = incarnation
	s.seen.note(ss.base, settings)
	before, known := req.Before.(*session)
	known = known && before.store == s && before.sid == ss.sid
	resumed := known && !ss.fresh
	ss.claims = &claims{}
	if resumed {
		// A copy: a late answer to the earlier value must not count for this one.
		ss.claims = before.claims.copy()
	}
	ss.ctx, ss.cancel = context.WithCancel(context.Background())
	ss.proof.init(ss, runID)
	ss.channel, ss.wanted = ss.base+":p:"+ss.sid, req.Contended
	ss.alive.s = ss
	ss.alive.note(renewal.Clock, sent, renewal.Clock.UnixMilli()+req.TTL.Milliseconds())
	ss.sweeper.s = ss
	ss.plain.init(ss, graceOver, ss.fresh || resumed)
	ss.batcher.init(ss, ss.carryOut)
	if s.switches.eager {
		ss.proof.now(ctx)
	}
	if known {
		before.replaced()
	}
	s.startGrace(ss.shard, ss.incarnation)
	return ss, renewal, nil
}

// own is what this process asks for, whatever the namespace has.
func (s *Store) own() asks {
	if a := s.asks.Load(); a != nil {
		return *a
	}
	return asks{}
}

// declare makes a TTL part of what this process asks for. Without grace it declares no other: the namespace would
// remember a bound that no session needs when grace is switched on.
func (s *Store) declare(ttl time.Duration) {
	for {
		before := s.asks.Load()
		if ttl <= before.maxTTL || s.asks.CompareAndSwap(before, &asks{before.grace, ttl}) {
			return
		}
	}
}

// Close closes the client if it is the store's.
func (s *Store) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	if limit < 0 {
		return fmt.Errorf("redisstore: limit %d is below 0: %w", limit, driver.ErrRefused)
	}
	return s.operate(ctx, func(set layout) error {
		shard := set.shard(name)
		if shard != firstShard { // it sets up a bucket, as a session does: see agree
			if _, err := s.callWith(ctx, set, touchScript, firstShard, nil, "0"); err != nil {
				return err
			}
		}
		reply, err := s.callWith(ctx, set, setLimitScript, shard, []string{name}, "0", name, strconv.FormatInt(limit, 10))
		if err == nil {
			s.walk(ctx, set, name, reply)
		}
		return err
	})
}

// ms is a duration in milliseconds, rounded up: nothing ends early for it.
func ms(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// verdict turns the first word of a reply into an error.
func verdict(reply []any) error {
	if len(reply) == 0 {
		return errors.New("redisstore: the script answered nothing")
	}
	switch word, _ := reply[0].(string); word {
	case "GONE":
		return fmt.Errorf("redisstore: %w", driver.ErrGone)
	case "RESET":
		return fmt.Errorf("redisstore: %w", driver.ErrReset)
	case "VACANT":
		return errVacant
	case "REFUSED":
		r := rediscmd.Reader{Rest: reply[1:]}
		return &layoutError{theirs: r.Text()}
	}
	return nil
}
