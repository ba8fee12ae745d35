// SPDX-License-Identifier: Apache-2.0

package setnxstore

import (
	"context"
	"errors"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
	"github.com/fencelock/fencelock/store/redisstore/internal/hashstore"
	"github.com/redis/go-redis/v9"
)

// The bounds of a session's TTL.
const (
	MinTTL = hashstore.MinTTL
	MaxTTL = hashstore.MaxTTL
)

// Options of a Store. The zero value shares the keys of redsync; nil is the same. No option makes
// renewals notice that a part of the server's data was lost: see the known limits of the package.
type Options struct {
	// Key is the key of a lock with one %s in the place of its name, as in "redlock:%s".
	// All services that share locks must use the same keys. Default "%s": the name is the
	// key.
	Key string
}

// Store is a store whose locks are strings. Make one with New. It is safe for concurrent use.
type Store struct {
	store *hashstore.Store
}

var _ driver.Store = (*Store)(nil)

// advice is what Require: Correctness is refused with.
const advice = "a lock that is a string set by SET NX is for efficiency: it has no fencing tokens, and a server that lost its data gives it to the next caller at once; " +
	"use redisstore with Grace, etcdstore, zkstore or sqlstore when no other library shares the lock"

// New returns a store that uses the client: a *redis.Client for one server, a
// *redis.Client from redis.NewFailoverClient for Sentinel, a *redis.ClusterClient
// for a cluster. The client stays the caller's; the store never closes it. A nil
// opts is fine. New does no I/O.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	if err := goredis.Fit("setnxstore", client); err != nil {
		return nil, err
	}
	before, after := "", ""
	if opts != nil && opts.Key != "" {
		var ok bool
		if before, after, ok = strings.Cut(opts.Key, "%s"); !ok || strings.Contains(before+after, "%") {
			return nil, errors.New(`setnxstore: Options.Key must have one %s in the place of the name, and no other %, as in "redlock:%s"`)
		}
	}
	return &Store{hashstore.New(goredis.New(client, ""), hashstore.Options{
		Package: "setnxstore", Kind: hashstore.Plain, Advice: advice, Assumes: "Other libraries share these locks. " + hashstore.PartialLoss,
		Key: func(name string) string { return before + name + after },
	}, nil)}, nil
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps { return s.store.Caps() }

// Shard implements driver.Store. On a cluster each hash slot is a shard, because one
// script reaches one slot; elsewhere there is one shard.
func (s *Store) Shard(name string) string { return s.store.Shard(name) }

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	return s.store.Open(ctx, req)
}

// Inspect implements driver.Store. A holder of another library is shown by its value.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return s.store.Inspect(ctx, name)
}

// List implements driver.Store: it is not supported.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	return s.store.List(ctx, q)
}

// Break implements driver.Store: it is not supported, because there are no tokens.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	return s.store.Break(ctx, name, token)
}

// SetLimit implements driver.Store: it is not supported.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	return s.store.SetLimit(ctx, name, limit)
}

// Check asks the servers and returns what makes them a worse place for locks, each with the
// setting to change. It writes nothing. That the format is for efficiency is always the
// first finding.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.store.Check(ctx) }

// Close does nothing: the client is the caller's to close, after the fencelock.Client.
// It is there so that every store can be closed in the same way.
func (s *Store) Close() error { return s.store.Close() }
