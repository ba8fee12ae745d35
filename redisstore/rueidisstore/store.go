// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"errors"

	"github.com/fencelock/fencelock/redisstore/internal/face"
	"github.com/redis/rueidis"
)

// Options are the settings of a namespace, and of this process; nil stands for the
// defaults. It is the same type as redisstore.Options, where its fields are
// explained: Namespace, MaxTTL, Grace and Buckets; Warn and Accept.
type Options = face.Options

// Store is a store on Redis or Valkey. It is the same type as redisstore.Store.
type Store = face.Store

// New returns a store that uses the client, whether it is one for a server,
// Sentinel or a cluster. The client stays the caller's; the store never closes it.
// A nil opts is fine. New does no I/O; the servers are looked at when the first
// session is opened, as redisstore.New explains.
//
// While a process waits for a lock the store holds one connection of the client's
// blocking pool for each session that waits. It takes up to two more for calls that
// come thick and fast, if the pool has them.
func New(client rueidis.Client, opts *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("rueidisstore: New needs a client, for example from rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})")
	}
	return face.New(&adapter{client: client, cluster: client.Mode() == rueidis.ClientModeCluster}, opts, nil)
}
