// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// NewSuspendable is New on a machine that was suspended for as long as the
// function says.
func NewSuspendable(store driver.Store, opts *Options, suspended func() time.Duration) (*Client, error) {
	return newClient(store, opts, clock.New(suspended))
}

// Lines counts the names the client keeps something for.
func (c *Client) Lines() int {
	n := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sh := range c.shards {
		sh.mu.Lock()
		n += len(sh.lines)
		sh.mu.Unlock()
	}
	return n
}
