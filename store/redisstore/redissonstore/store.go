// SPDX-License-Identifier: Apache-2.0

package redissonstore

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/foreign"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
	"github.com/redis/go-redis/v9"
)

// The bounds of a session's TTL. A Java waiter that missed a message waits for the rest of
// it, so keep the TTL near Redisson's 30 seconds or below.
const (
	MinTTL = foreign.MinTTL
	MaxTTL = foreign.MaxTTL
)

// MaxReadWriteTTL is MaxTTL with Options.ReadWrite.
const MaxReadWriteTTL = foreign.MaxReadWriteTTL

// Options of a Store. The zero value is good for most; nil is the same.
type Options struct {
	// NameMapper makes the key of a lock from its name, as Config.setNameMapper of Redisson
	// does: all services that share locks must map names alike. Default: the name is the key.
	NameMapper func(name string) string
	// NoTokens leaves out the fencing tokens. Each token costs a key that stays forever,
	// redisson_lock_token:{name}, as with RFencedLock. Default false.
	NoTokens bool
	// ReadWrite makes every lock of this store an RReadWriteLock: Mutex and RWMutex.Lock take
	// its writeLock(), RWMutex.RLock its readLock(). There are no tokens then, and no MinHold
	// and MaxHold. A name has one kind, as in Java; a service that needs both kinds makes two
	// stores. Default false: every lock is an RLock.
	//
	// A writer can starve while readers overlap: the lock has no queue.
	//
	// The TTL must not exceed lockWatchdogTimeout of the Java services, or a writer can hold the
	// lock beside a Go reader: the watchdog of a Java reader shortens the lease of all readers to
	// it. The store rejects a TTL above MaxReadWriteTTL, which is the default of that setting.
	ReadWrite bool
}

// Store is a store that shares locks with Redisson. Make one with New. It is safe for
// concurrent use.
//
// It has the methods of driver.Store. On a cluster each hash slot is a shard, because one
// script reaches one slot; elsewhere there is one shard. Inspect shows a holder that is a Java thread by its id,
// without a token. Break breaks locks that Go processes hold: only these have a
// token. List and SetLimit are not supported.
type Store struct{ *inner }

type inner = foreign.Store

var _ driver.Store = (*Store)(nil)

// New returns a store that uses the client: a *redis.Client for one server, a
// *redis.Client from redis.NewFailoverClient for Sentinel, a *redis.ClusterClient
// for a cluster. The client stays the caller's; the store never closes it. A nil
// opts is fine. New does no I/O.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	return newStore(client, opts, nil)
}

func newStore(client redis.UniversalClient, opts *Options, closeClient func() error) (*Store, error) {
	if err := goredis.Fit("redissonstore", client); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &Options{}
	}
	set := foreign.Options{Package: "redissonstore", Key: opts.NameMapper, NoTokens: opts.NoTokens, Advice: advice, Assumes: assumes}
	if opts.ReadWrite {
		set.Kind = foreign.ReadWrite
	}
	if opts.NoTokens || opts.ReadWrite {
		set.Assumes = assumesNothing
	}
	return &Store{foreign.New(goredis.New(client, ""), set, closeClient)}, nil
}

// What Guarantees and a refusal of Require: Correctness say.
const (
	advice = "locks in Redisson's format are for efficiency: getLock in Java takes no token, and a server that lost its data gives a lock to the next caller at once; " +
		"use Redis in fencelock's own format with grace=true (Options{Grace: true} of redisstore), etcd, ZooKeeper or a database when no Java service shares the lock"
	assumes = "Tokens are shared with RFencedLock; a Java service that locks by getLock has none, so no guard can reject it. " +
		"After a data loss tokens keep increasing for Go if the server's clock is not set back. " + foreign.PartialLoss
	assumesNothing = "Java services share these locks. " + foreign.PartialLoss
)

// Check asks the servers and returns what makes them a worse place for locks, each with the
// setting to change. It writes nothing. That the format is for efficiency is always the
// first finding.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.inner.Check(ctx) }

// Close ends the store's subscriptions, and closes the client of Open. The client of New is the
// caller's to close, after the fencelock.Client and the store.
func (s *Store) Close() error { return s.inner.Close() }
