// SPDX-License-Identifier: Apache-2.0

// Package checkedstore is the store that redisstore and rueidisstore share: a
// native.Store that checks its servers before it opens the first session. It links no
// client library, so that a program links only the one it uses.
package checkedstore

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
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

// Store is the store that redisstore.Store and rueidisstore.Store forward to.
type Store struct {
	*native.Store
	client rediscmd.Client
	opts   Options
	close  func() error
	start  start
	ttl    atomic.Int64 // the longest TTL of a session that was opened here
}

// New returns a store over a client. closeClient is nil if the client stays the
// caller's. It does no I/O.
func New(client rediscmd.Client, opts *Options, closeClient func() error) (*Store, error) {
	s := &Store{client: client, close: closeClient}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Namespace == "" {
		s.opts.Namespace = native.DefaultNamespace
	}
	if err := storeurl.Accepts(s.opts.Accept, codes); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	s.start.reported = map[string]bool{}
	lists := native.Options{}
	if ForTest != nil {
		lists = ForTest(s.opts.Namespace)
	}
	lists.Namespace, lists.MaxTTL, lists.Grace, lists.Buckets = s.opts.Namespace, s.opts.MaxTTL, s.opts.Grace, s.opts.Buckets
	lists.Explain = s.explain
	var err error
	if s.Store, err = native.New(client, &lists); err != nil {
		return nil, err
	}
	return s, nil
}

// ForTest returns further options of a namespace. Tests set it before they make a store;
// otherwise it is nil.
var ForTest func(namespace string) native.Options

// explain adds the permissions that the user of the connection lacks.
func (s *Store) explain(err error) error {
	if !rediscmd.Forbidden(err) {
		return err
	}
	return fmt.Errorf("%w; add what the store needs: %s", err, s.grant())
}

// Close closes the client if Open made it. A client that was given to New stays
// open: it is its owner's to close. Close the fencelock.Client first.
func (s *Store) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}
