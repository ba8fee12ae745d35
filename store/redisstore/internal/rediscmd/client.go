// SPDX-License-Identifier: Apache-2.0

// Package rediscmd is what the layouts in Redis share: what they need of a client library,
// scripts that carry a run id, and how replies and errors are read. The rest is what the adapters of all client libraries share: how a call
// ends with its context, and what an error of the way means for what was asked.
package rediscmd

import "context"

// Client is what the stores need of a client library. Errors are classified
// with Unavailable and Unknown, or are answers of the server. A call whose context has ended
// must send nothing.
type Client interface {
	// Eval runs a script on the node that keeps keys[0]: by its SHA, with the
	// text if the server does not know it. If there is no text it must return
	// ErrNoScript then.
	Eval(ctx context.Context, s *Script, keys, args []string) ([]any, error)
	// Send sends commands at once, and once, to the node that keeps the key of the first, and
	// notes their replies. After an error it may still use the commands.
	Send(ctx context.Context, commands *Commands) error
	// Listen subscribes to a channel until ctx ends. It calls ready each time a
	// subscription was confirmed, the first time and after every gap, and
	// message for each message. It returns at once.
	Listen(ctx context.Context, channel Channel, ready func(), message func(text string))
	// Prove loads scripts into the server that keeps a key if that server has the
	// run id, and must never load them into another: it must read the run id on the
	// connection over which it then loads them, and must not replace that
	// connection in between. If the server knows all of them, another process has loaded
	// them, and nothing is sent: after a failover every process of a fleet comes at once.
	Prove(ctx context.Context, key, runID string, scripts []*Script) error
	// Nodes returns the servers that keep locks: one, or the masters of a
	// cluster.
	Nodes(ctx context.Context) ([]Node, error)
	// Sharded reports whether the client is one of a cluster, which has sharded channels.
	Sharded() bool
}

// Channel is where messages are published. One that is Sharded is on the node of its slot: only a cluster has them. A message to
// another one reaches all nodes.
type Channel struct {
	Name    string
	Sharded bool
}

// Node is one server, asked directly.
type Node struct {
	Addr string
	// Ask sends the same command over several connections that are open at the
	// same time, so that a proxy cannot hide that there are several servers. It
	// may use fewer where the client's pool is small.
	Ask func(ctx context.Context, connections int, args ...string) ([]any, error)
}
