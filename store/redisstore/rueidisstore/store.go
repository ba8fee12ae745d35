// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/rueidisclient"
	"github.com/redis/rueidis"
)

// Options are what a process asks of a namespace, and settings of the process; nil stands for the
// defaults. All processes of a namespace must use the same Namespace and Buckets.
// The fields are those of redisstore.Options, so that (*Options)(opts) converts them.
type Options struct {
	// Namespace is the prefix of all keys and channels. Default "fencelock".
	Namespace string
	// Grace makes a server that lost its data grant nothing until every earlier
	// session must have ended, so that holders keep their leases. The namespace has
	// grace from the first process on that asks for it, and all others obey. Default false.
	Grace bool
	// MaxTTL is the longest TTL of any process of the namespace. A grace period is as long as
	// the highest MaxTTL of a process. Default 15 seconds with Grace, one minute without.
	MaxTTL time.Duration
	// Buckets is the number of hash slots that names are spread over. Default 1, on
	// a cluster 32.
	Buckets int

	// Warn is called with what is wrong with the servers, once for each finding, when
	// the first session is opened, which waits for it. Default: a line to log/slog.
	Warn func(driver.Finding)
	// Accept has the codes of findings that are known and accepted. They are not
	// reported to Warn, and no session is refused because of them.
	Accept []string
}

// Store is a store on Redis or Valkey, on a rueidis client. Make one with New. It is safe
// for concurrent use.
//
// It has the methods of driver.Store and driver.Configurer, which changes grace and max_ttl. Its shards are the
// hash slots of Options.Buckets.
type Store struct{ *inner }

type inner = native.Store

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Configurer = (*Store)(nil)
)

// New returns a store that uses the client, whether it is one for a server,
// Sentinel or a cluster. The client stays the caller's; the store never closes it.
// A nil opts is fine. New does no I/O; the servers are checked when the first session is
// opened, as redisstore.New explains.
//
// While a process waits for locks the store holds one connection of the client's
// blocking pool, on a cluster one for each session that waits. Under load it takes up to two more for calls,
// if the pool has them, except on a cluster.
func New(client rueidis.Client, opts *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("rueidisstore: New needs a client, for example from rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})")
	}
	store, err := native.New(rueidisclient.New(client), (*native.Options)(opts), nil)
	if err != nil {
		return nil, err
	}
	return &Store{store}, nil
}

// Check asks the servers behind the store whether they are fit to keep locks, and
// returns what is not, each with the setting to change. An empty result is a good one.
// Check writes nothing and needs no more permissions than the store does; what these
// permissions hide is a finding, too. The error means that a server could not be asked;
// the findings then are about the others.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.inner.Check(ctx) }

// ACL returns the line that lets a user of the server do what this store needs and
// nothing else: add a password (">secret") and give it to ACL SETUSER or to the
// server's configuration after "user".
//
// The user can read and write the keys of the namespace with the listed commands, with
// or without scripts: a client that has the password can break the locks.
func (s *Store) ACL(user string) string { return s.inner.ACL(user) }

// Close does nothing: the client is the caller's to close, after the fencelock.Client.
// It is there so that every store can be closed in the same way.
func (s *Store) Close() error { return s.inner.Close() }
