// SPDX-License-Identifier: Apache-2.0

package rediscmd

import "context"

// Client is what the store needs of a client library. Errors are classified
// with Unavailable and Unknown, or are answers of the server.
type Client interface {
	Conn
	// Conn returns a way to the node that keeps a key, for one call at a time: a
	// dedicated connection where the library is faster on one. It does no I/O.
	Conn(key string) Conn
	// Fields returns a part of the fields of a hash that match a pattern, and
	// the next cursor, 0 at the end.
	Fields(ctx context.Context, key string, cursor uint64, pattern string) (names []string, next uint64, err error)
	// Listen subscribes to a channel until ctx ends. It calls ready each time a
	// subscription was confirmed, the first time and after every gap, and
	// message for each message. It returns at once.
	Listen(ctx context.Context, channel string, ready func(), message func(text string))
	// Prove loads scripts into the server that keeps a key if that server has the
	// run id, and must never load them into another: it must read the run id on the
	// connection over which it then loads them, and must not replace that
	// connection in between. If the server knows all of them, another process has loaded
	// them, and nothing is sent: after a failover every process of a fleet comes at once.
	Prove(ctx context.Context, key, runID string, scripts []*Script) error
	// Sharded reports whether channels are sharded: a cluster.
	Sharded() bool
}

// Conn runs scripts.
type Conn interface {
	// Eval runs a script on the node that keeps keys[0]: by its SHA, with the
	// text if the server does not know it. If there is no text it must return
	// ErrNoScript then.
	Eval(ctx context.Context, s *Script, keys, args []string) ([]any, error)
	// Close closes a dedicated connection. The caller's client stays open.
	Close()
}
