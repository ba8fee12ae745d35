// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"context"

	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

// Client is what the store needs of a client library.
type Client interface {
	wire.Client
	Commander
}

// Commander sends plain commands. A wire.Conn of a Client may be one, too.
type Commander interface {
	// Exec runs commands as one transaction, once, on the node that keeps a key, and
	// returns their replies; one that is empty is nil. The key is that of the first command.
	Exec(ctx context.Context, key string, commands [][]string) ([]any, error)
	// Pipe sends commands at once, without a transaction.
	Pipe(ctx context.Context, key string, commands [][]string) ([]any, error)
}
