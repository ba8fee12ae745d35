// SPDX-License-Identifier: Apache-2.0

package engine

import "context"

// Client is what the store needs of a client library. Errors are classified
// with Unavailable and Unknown, or are answers of the server.
type Client interface {
	// Eval runs a script on the node that keeps keys[0]: by its SHA, with the
	// text if the server does not know it.
	Eval(ctx context.Context, s *Script, keys, args []string) ([]any, error)
	// Fields returns a part of the fields of a hash that match a pattern, and
	// the next cursor, 0 at the end.
	Fields(ctx context.Context, key string, cursor uint64, pattern string) (names []string, next uint64, err error)
	// Listen subscribes to a channel until ctx ends. It calls ready each time a
	// subscription was confirmed, the first time and after every gap, and
	// message for each message. It returns at once.
	Listen(ctx context.Context, channel string, ready func(), message func(text string))
	// Prove subscribes to a channel on a connection that was seen to belong to
	// the life of a server with that run id, and never on another, until ctx
	// ends. It calls proven when the subscription is there. A client that cannot
	// be sure of its connections does nothing: the scripts then ask the server
	// each time. It returns at once.
	Prove(ctx context.Context, runID, channel string, proven func())
	// Sharded says whether channels are sharded: a cluster.
	Sharded() bool
}
