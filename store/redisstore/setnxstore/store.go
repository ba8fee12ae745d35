// SPDX-License-Identifier: Apache-2.0

package setnxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/foreign"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
	"github.com/fencelock/fencelock/store/redisstore/internal/redlock"
	"github.com/redis/go-redis/v9"
)

// The bounds of a session's TTL.
const (
	MinTTL = foreign.MinTTL
	MaxTTL = foreign.MaxTTL
)

// Options of a Store. The zero value shares the keys of redsync; nil is the same.
type Options struct {
	// Key is the key of a lock with one %s in the place of its name, as in "redlock:%s".
	// All services that share locks must use the same keys. Default "%s": the name is the
	// key.
	Key string
	// Channel is where an unlock publishes the key of the lock, and where waiters listen, as Spring
	// Integration's RedisLockRegistry does in its mode PUB_SUB_LOCK: "REGISTRY-channel" with the
	// Key "REGISTRY:%s". Default "": nothing is published, and waiters poll.
	Channel string
}

// Store is a store whose locks are strings. Make one with New or NewRedlock. It is safe for
// concurrent use.
//
// It has the methods of driver.Store. On a cluster each hash slot is a shard, because one
// script reaches one slot; elsewhere there is one shard. Inspect shows a holder of another library by its value.
// Break is not supported, because there are no tokens, nor are List and SetLimit.
type Store struct {
	inner
	clients []redis.UniversalClient // of Open
}

// inner is a foreign.Store or a redlock.Store.
type inner interface {
	driver.Store
	Check(ctx context.Context) ([]driver.Finding, error)
	Close() error
}

var _ driver.Store = (*Store)(nil)

// What Guarantees and a refusal of Require: Correctness say.
const (
	advice = "a lock that is a string set by SET NX is for efficiency: it has no fencing tokens, and a server that lost its data gives it to the next caller at once; " +
		"use Redis in fencelock's own format with grace=true (Options{Grace: true} of redisstore), etcd, ZooKeeper or a database when no other library shares the lock"
	assumes        = "Other libraries share these locks. "
	assumesRedlock = "Other libraries share these locks, on a majority of servers. The clocks of the servers run equally fast up to a hundredth, " +
		"and a server that lost its data stays down for the longest TTL: otherwise two may hold one lock."
)

// New returns a store that uses the client: a *redis.Client for one server, a
// *redis.Client from redis.NewFailoverClient for Sentinel, a *redis.ClusterClient
// for a cluster. The client stays the caller's; the store never closes it. A nil
// opts is fine. New does no I/O.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	set, err := settings(opts, assumes+foreign.PartialLoss)
	if err != nil {
		return nil, err
	}
	node, err := nodeOf(client, set)
	if err != nil {
		return nil, err
	}
	return &Store{inner: node}, nil
}

// NewRedlock returns a store over several independent servers: a lock is held if a majority of them
// has it, as with redsync.New of the same servers, node-redlock and other Redlock libraries. All
// services must name the same servers, each once. The clients stay the caller's. NewRedlock does no
// I/O: it refuses an address that is there twice, and Check finds two addresses of one server.
//
// Use it to join services that lock in this way. Without them package redisquorum is better: it
// has fencing tokens and a queue.
func NewRedlock(clients []redis.UniversalClient, opts *Options) (*Store, error) {
	set, err := settings(opts, assumesRedlock)
	switch {
	case err != nil:
		return nil, err
	case len(clients) < 2:
		return nil, fmt.Errorf("setnxstore: NewRedlock needs the clients of several servers, it got %d; use New for one server", len(clients))
	case set.Channel != "":
		return nil, errors.New("setnxstore: Options.Channel is for one server; remove it, the libraries that lock a majority publish nothing")
	}
	var nodes []*foreign.Store
	seen := map[string]bool{}
	for _, client := range clients {
		if _, cluster := client.(*redis.ClusterClient); cluster {
			return nil, errors.New("setnxstore: a node of NewRedlock must be one server, not a cluster; use New for a cluster")
		}
		node, err := nodeOf(client, set)
		if err != nil {
			return nil, err
		}
		addr := addrOf(client)
		if addr != "" && seen[addr] {
			return nil, fmt.Errorf("setnxstore: %s is there twice, and one server would count as two of the majority; name each server once", addr)
		}
		seen[addr] = true
		nodes = append(nodes, node)
	}
	return &Store{inner: redlock.New("setnxstore", nodes)}, nil
}

// addrOf is the address of a client's server, "" if the client finds it out later, as with Sentinel.
func addrOf(client redis.UniversalClient) string {
	one, ok := client.(*redis.Client)
	if !ok || one.Options().Addr == "FailoverClient" {
		return ""
	}
	return one.Options().Addr
}

// nodeOf is the store of one client.
func nodeOf(client redis.UniversalClient, set foreign.Options) (*foreign.Store, error) {
	if err := goredis.Fit("setnxstore", client); err != nil {
		return nil, err
	}
	return foreign.New(goredis.New(client, ""), set, nil), nil
}

// settings reads the options.
func settings(opts *Options, assumes string) (foreign.Options, error) {
	set := foreign.Options{Package: "setnxstore", Kind: foreign.Plain, Advice: advice, Assumes: assumes}
	if opts == nil {
		return set, nil
	}
	set.Channel = opts.Channel
	if opts.Key == "" {
		return set, nil
	}
	before, after, ok := strings.Cut(opts.Key, "%s")
	if !ok || strings.Contains(before+after, "%") {
		return set, errors.New(`setnxstore: Options.Key must have one %s in the place of the name, and no other %, as in "redlock:%s"`)
	}
	set.Key = func(name string) string { return before + name + after }
	return set, nil
}

// Check asks the servers and returns what makes them a worse place for locks, each with the
// setting to change. It writes nothing. That the format is for efficiency is always the
// first finding.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.inner.Check(ctx) }

// Close ends the store's subscriptions, and closes the clients of Open. The clients of New and
// NewRedlock are the caller's to close, after the fencelock.Client and the store.
func (s *Store) Close() error { return errors.Join(s.inner.Close(), closeAll(s.clients)) }
