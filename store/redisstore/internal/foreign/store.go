// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// PartialLoss is what Guarantees shows of a server that loses a part of its data, in the words of
// Caps.Assumes.
const PartialLoss = "If the server loses a part of its data, by a failover or an eviction, a lease that was lost is reported at the next renewal: " +
	"until then another process may hold the lock, too."

// The bounds of a session's TTL. A Java waiter that missed a message waits for the rest of it.
const (
	MinTTL = 100 * time.Millisecond
	MaxTTL = 10 * time.Minute
)

// MaxReadWriteTTL is MaxTTL of an RReadWriteLock: the default of Redisson's lockWatchdogTimeout. The
// watchdog of a Java reader sets the time to live of the hash to that, even if a Go reader has
// set a longer one, and a writer that finds no hash is granted beside the Go reader.
const MaxReadWriteTTL = 30 * time.Second

// Kind is what a lock is on the server.
type Kind uint8

const (
	// Lock is Redisson's RLock and RFencedLock: a hash.
	Lock Kind = iota
	// ReadWrite is Redisson's RReadWriteLock: a hash with a mode, and a key for each reader.
	ReadWrite
	// Plain is a string that is set if it is absent, as redsync and many others do.
	Plain
)

// Options are what the packages that forward to a Store set.
type Options struct {
	// Package begins the errors.
	Package string
	// Kind is that of all locks.
	Kind Kind
	// Key makes the key of a lock from its name; nil takes the name.
	Key func(name string) string
	// NoTokens leaves out the tokens of a Lock.
	NoTokens bool
	// Channel is where the key of a Plain lock that became free is published, "" if nowhere.
	Channel string
	// Advice and Assumes are those of Caps.
	Advice, Assumes string
}

// Store is the store that redissonstore.Store and setnxstore.Store embed. Its methods are part of their API.
type Store struct {
	client        rediscmd.Client
	opts          Options
	close         func() error
	subscriptions subscriptions
}

var _ driver.Store = (*Store)(nil)

// New returns a store over a client. closeClient is nil if the client stays the
// caller's. It does no I/O.
func New(client rediscmd.Client, opts Options, closeClient func() error) *Store {
	s := &Store{client: client, opts: opts, close: closeClient}
	s.subscriptions.client, s.subscriptions.plain = client, opts.Kind == Plain
	return s
}

// Close ends the subscriptions, and closes the client if it is the store's.
func (s *Store) Close() error {
	s.subscriptions.close()
	if s.close == nil {
		return nil
	}
	return s.close()
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := driver.Caps{
		Engine: "redisson", Fencing: driver.BestEffort, Durability: driver.Volatile,
		Push: true, Hold: true, MinTTL: MinTTL, MaxTTL: s.maxTTL(), Assumes: s.opts.Assumes, Advice: s.opts.Advice,
	}
	if s.noTokens() {
		c.Fencing = driver.NoFencing
	}
	switch s.opts.Kind {
	case ReadWrite:
		c.Shared, c.NoLimits, c.Hold = true, true, false
	case Plain:
		c.Engine, c.Push, c.Hold = "redis", s.opts.Channel != "", false
	}
	return c
}

// maxTTL is the longest TTL of a session.
func (s *Store) maxTTL() time.Duration {
	if s.opts.Kind == ReadWrite {
		return MaxReadWriteTTL
	}
	return MaxTTL
}

// noTokens reports whether grants have no tokens. Only RFencedLock has a place for them.
func (s *Store) noTokens() bool { return s.opts.NoTokens || s.opts.Kind != Lock }

// Shard implements driver.Store. A script reaches one slot of a cluster, so each slot is a
// shard there.
func (s *Store) Shard(name string) string {
	if !s.client.Sharded() {
		return "0"
	}
	return strconv.Itoa(rediscmd.SlotOf(s.key(name)))
}

// key is the key of a lock.
func (s *Store) key(name string) string {
	if s.opts.Key != nil {
		return s.opts.Key(name)
	}
	return name
}

// keyOf is key, and an error for a name that does not work.
func (s *Store) keyOf(name string) (string, error) {
	key := s.key(name)
	if key == "" {
		return "", s.errorf("the key that was made of %q is empty: %w", name, driver.ErrRefused)
	}
	if s.client.Sharded() && s.opts.Kind != Plain && split(key) {
		return "", s.errorf("lock %q: on a cluster Redisson cannot unlock a name with an unpaired or empty brace: %w", name, driver.ErrRefused)
	}
	return key, nil
}

// waking is the argument of scripts that wake waiters: the channel of a Plain lock, or whether
// channels are sharded.
func (s *Store) waking() string {
	if s.opts.Kind == Plain {
		return s.opts.Channel
	}
	return flag(s.client.Sharded())
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// call runs a script.
func (s *Store) call(ctx context.Context, op string, script *rediscmd.Script, keys []string, args ...string) ([]any, error) {
	err := ctx.Err()
	var reply []any
	if err == nil {
		reply, err = s.client.Eval(ctx, script, keys, args)
	}
	if err != nil {
		return nil, s.errorf("%s: %w", op, err)
	}
	if len(reply) == 0 {
		return nil, s.errorf("%s: the script answered nothing", op)
	}
	return reply, nil
}

// wrongKind is the error of a key that is not a lock of this kind.
func (s *Store) wrongKind(op, name, kind string) error {
	switch {
	case kind == "RFairLock":
		return s.errorf("%s: lock %q is an RFairLock, with Java threads in its queue, which cannot be shared: positions lapse by the clocks of clients; "+
			"use getLock in the Java services, or another name", op, name)
	case kind == "string" && s.opts.Kind != Plain:
		return s.errorf("%s: lock %q: the key %s is a string: an RSemaphore, an RPermitExpirableSemaphore, a latch, or a lock of another library, which cannot be shared; "+
			"use another name or another key", op, name, s.key(name))
	}
	return s.errorf("%s: lock %q: the key %s is in use by something else, a %s; use another name or another key", op, name, s.key(name), kind)
}

// errorf makes an error that begins with the package that forwards to the store.
func (s *Store) errorf(format string, args ...any) error {
	return fmt.Errorf(s.opts.Package+": "+format, args...)
}

// Open implements driver.Store. What req.Before knows of the session's claims is known to the next value, too.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if req.TTL < MinTTL || req.TTL > s.maxTTL() {
		return nil, driver.Renewal{}, s.errorf("TTL %v is not within %v and %v: %w", req.TTL, MinTTL, s.maxTTL(), driver.ErrRefused)
	}
	ses := &session{store: s, id: req.ID, ttl: req.TTL, keys: s.sessionKeys(req.Shard, req.ID), sessions: s.sessions(req.Shard), claims: &claims{}}
	reply, err := s.call(ctx, "open", openScript, ses.keys, millis(req.TTL))
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	ses.ctx, ses.end = context.WithCancelCause(context.Background())
	r := rediscmd.Reader{Rest: reply}
	ses.fresh = r.Number() == 1
	ses.opened = strconv.FormatInt(r.Number(), 10)
	if before, known := req.Before.(*session); known && before.store == s && before.id == ses.id {
		ses.claims = before.claims
		if ses.fresh {
			ses.claims = before.claims.lost()
		}
	}
	if ses.fresh {
		return ses, driver.Renewal{TTL: req.TTL}, nil
	}
	// The leases of a session that is resumed count from now, too. What it had may not be known.
	renewal, err := ses.keepAlive(ctx, false)
	return ses, renewal, err
}

// Inspect implements driver.Store. There is no queue, so it shows no waiters.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st := driver.Status{Name: name}
	found, kind, err := s.inspect(ctx, name)
	if err != nil {
		return st, err
	}
	if kind != "" {
		return st, s.wrongKind("inspect", name, kind)
	}
	st.Holders = found
	return st, nil
}

func (s *Store) inspect(ctx context.Context, name string) (holders []driver.Holder, kind string, err error) {
	key, err := s.keyOf(name)
	if err != nil {
		return nil, "", err
	}
	// The keys of a session are not used; the lock's own slot has to be asked.
	reply, err := s.call(ctx, "inspect", inspectScript, []string{key, key, key, key}, s.sessions(s.Shard(name)), s.keyType())
	if err != nil {
		return nil, "", err
	}
	r := rediscmd.Reader{Rest: reply}
	switch r.Text() {
	case "kind":
		return nil, r.Text(), nil
	case "held":
		holders, _ = s.readState(r.List())
	}
	return holders, "", nil
}

// keyType is the type of the keys of locks.
func (s *Store) keyType() string {
	if s.opts.Kind == Plain {
		return "string"
	}
	return "hash"
}

// Break implements driver.Store. It breaks locks of Go processes, which have a token.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	if s.noTokens() {
		return 0, s.errorf("break: %w without tokens", driver.ErrUnsupported)
	}
	key, err := s.keyOf(name)
	if err != nil {
		return 0, err
	}
	for {
		holders, _, err := s.inspect(ctx, name)
		if err != nil {
			return 0, err
		}
		if len(holders) == 0 || holders[0].Token != token.Base() {
			return 0, s.errorf("break: %w", driver.ErrNotHeld)
		}
		h := holders[0]
		field := keptField
		if !h.Kept {
			field = holderOf(h.Claim.Session, h.Claim.Seq)
		}
		keys := append(s.sessionKeys(s.Shard(name), h.Claim.Session), key)
		reply, err := s.call(ctx, "break", breakScript, keys, token.Base().String(), field, strconv.FormatUint(h.Claim.Seq, 10), s.waking())
		if err != nil {
			return 0, err
		}
		switch text, _ := reply[0].(string); text {
		case "free":
			return 0, s.errorf("break: %w", driver.ErrNotHeld)
		case "other": // it was unlocked in between, and is kept
		default:
			n, err := strconv.ParseInt(text, 10, 64)
			return driver.Token(n), err
		}
	}
}

// List implements driver.Store: it is not supported, because locks have no common prefix.
func (s *Store) List(ctx context.Context, _ driver.ListQuery) (driver.Page, error) {
	return driver.Page{}, s.unsupported(ctx, "list")
}

// SetLimit implements driver.Store: it is not supported.
func (s *Store) SetLimit(ctx context.Context, _ string, _ int64) error {
	return s.unsupported(ctx, "set limit")
}

// unsupported is the answer to what the store cannot do by its Caps.
func (s *Store) unsupported(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return s.errorf("%s: %w", op, err)
	}
	return s.errorf("%s: %w in this format", op, errors.ErrUnsupported)
}

//go:embed lua/*.lua
var sources embed.FS

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there
	}
	return string(text)
}

// load returns a script. None has flags, which a server before 7.0 does not understand: a
// fleet of Java services may still have one.
func load(name string) *rediscmd.Script {
	return rediscmd.Compose(name, source("lib"), "", source(name))
}

var (
	openScript      = load("open")
	keepScript      = load("keep")
	mendScript      = load("mend")
	takeScript      = load("take")
	takeRWScript    = load("takerw")
	takePlainScript = load("takeplain")
	releaseScript   = load("release")
	closeScript     = load("close")
	breakScript     = load("break")
	inspectScript   = load("inspect")
)

// Check asks the servers and returns what makes them a worse place for locks.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	found, _, err := CheckRuns(ctx, s)
	return found, err
}

// CheckRuns is Check, and returns the run_id of each server that answered, by its address.
func CheckRuns(ctx context.Context, s *Store) (found []driver.Finding, runs map[string]string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, s.errorf("check: %w", err)
	}
	nodes, err := s.client.Nodes(ctx)
	if err != nil {
		return nil, nil, s.errorf("check: find the servers: %w", err)
	}
	found = []driver.Finding{{Severity: driver.Note, Code: "efficiency-only",
		Reason: "locks in this format survive no failover, and other libraries take no token", Fix: s.opts.Advice}}
	var failed error
	runs = map[string]string{}
	for _, node := range nodes {
		replies, err := rediscmd.Within(ctx, func() ([]any, error) { return node.Ask(ctx, 1, "INFO") })
		if err != nil {
			failed = s.errorf("check: %s: %w", node.Addr, err)
			continue
		}
		text, _ := replies[0].(string)
		found = append(found, judge(node.Addr, text, s.client.Sharded())...)
		_, run, _ := strings.Cut(text, "\nrun_id:")
		runs[node.Addr], _, _ = strings.Cut(run, "\r")
	}
	return found, runs, failed
}

// judge returns what INFO of a server means for locks. It does no I/O.
func judge(addr, info string, cluster bool) (found []driver.Finding) {
	add := func(severity driver.Severity, code, reason, fix string) {
		found = append(found, driver.Finding{Severity: severity, Code: code, Node: addr, Reason: reason, Fix: fix})
	}
	has := func(line string) bool { return strings.Contains(info, "\n"+line) }
	reason := "it is a replica and grants nothing"
	if has("slave_read_only:0") {
		reason = "it is a replica that accepts writes (replica-read-only no), so it grants what its master grants too"
	}
	if has("role:slave") {
		add(driver.Danger, "replica", reason, "connect to the master, or through Sentinel")
	}
	if has("connected_slaves:") && !has("connected_slaves:0\r") {
		add(driver.Warning, "failover", "it has replicas: a failover to one that lags can make two holders at once", "keep locks that must survive a failover in fencelock's own format with grace=true (Options{Grace: true} of redisstore)")
	}
	if has("maxmemory_policy:") && !has("maxmemory_policy:noeviction") {
		add(driver.Warning, "eviction", "a lock has a time to live, and the policy evicts such keys when memory is short", "CONFIG SET maxmemory-policy noeviction, or keep locks on a dedicated server")
	}
	if !cluster && (has("redis_mode:cluster") || has("server_mode:cluster")) {
		add(driver.Danger, "cluster-client", "it is part of a cluster, and the client is not one for clusters", "use redis.NewClusterClient")
	}
	return found
}
