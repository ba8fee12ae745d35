// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// Client is what the store needs of a client library.
type Client interface {
	rediscmd.Client
	Commander
}

// Commander sends plain commands. A rediscmd.Conn of a Client must be one, too.
type Commander interface {
	// Send sends commands at once, and once, to the node that keeps the key of the first, and
	// notes their replies. After an error it may still use the commands.
	Send(ctx context.Context, commands *Commands) error
}
