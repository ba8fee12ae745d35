// SPDX-License-Identifier: Apache-2.0

// Package face is what users see, whichever client library they bring: the
// options, the store and its check. It links no client library, so that nobody
// links one he does not use.
package face

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/redisstore/internal/engine"
)

// Client is a client library as the store and its check need it.
type Client interface {
	engine.Client
	// Nodes returns the servers that keep locks: one, or the masters of a
	// cluster.
	Nodes(ctx context.Context) ([]Node, error)
}

// Node is one server, asked directly.
type Node struct {
	Addr string
	// Ask sends the same command over several connections that are open at the
	// same time, so that a proxy cannot hide that there are several servers. It
	// may use fewer where the client's pool is small.
	Ask func(ctx context.Context, connections int, args ...string) ([]any, error)
}

// Options are the settings of a namespace, and, below them, those of this process
// alone. All clients of a namespace must use the same of the first: they are kept in
// the store, and a client with others is refused.
type Options struct {
	// Namespace is the prefix of all keys and channels. Default "fencelock".
	Namespace string
	// MaxTTL is the longest TTL of a session, and how long grace lasts. Default
	// one minute.
	MaxTTL time.Duration
	// Grace makes a server that lost its memory grant nothing until every
	// earlier session must have ended, so that holders keep their leases.
	Grace bool
	// Buckets is the number of hash slots names are spread over. Default 1, on
	// a cluster 32.
	Buckets int

	// Warn is told what is wrong with the servers, once each, when the first
	// session is opened, which waits for it. Default: a line to log/slog.
	Warn func(driver.Finding)
	// Accept has the codes of findings that are known and accepted. Nobody is told
	// of them, and no session is refused for their sake.
	Accept []string
}

func (o Options) engine() *engine.Options {
	return &engine.Options{Namespace: o.Namespace, MaxTTL: o.MaxTTL, Grace: o.Grace, Buckets: o.Buckets}
}

// Store is a store on Redis or Valkey. Besides the methods of driver.Store it can
// check the servers behind it (Check) and tell the permissions it needs (ACL).
type Store struct {
	*engine.Store
	client Client
	opts   Options
	close  func() error
	start  start
}

// New returns a store over a client. closeClient is nil if the client stays the
// caller's. It does no I/O.
func New(client Client, opts *Options, closeClient func() error) (*Store, error) {
	s := &Store{client: client, close: closeClient}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Namespace == "" {
		s.opts.Namespace = engine.DefaultNamespace
	}
	for _, code := range s.opts.Accept {
		if !slices.Contains(codes, code) {
			return nil, fmt.Errorf("redisstore: Options.Accept has %q, which no finding is called; there are %s", code, strings.Join(codes, ", "))
		}
	}
	s.start.told = map[string]bool{}
	var err error
	s.Store, err = engine.New(client, s.opts.engine())
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the client if Open made it. A client that was given to New stays
// open: it is its owner's to close. Close the fencelock.Client first.
func (s *Store) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}
