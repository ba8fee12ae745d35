// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// maxConns is how many dedicated connections a session uses at once. Calls beyond that share
// the connection of the client.
const maxConns = 2

// conns are the dedicated connections of a session.
type conns struct {
	s     *session
	mu    sync.Mutex
	free  []rediscmd.Conn
	inUse int
}

func (c *conns) init(s *session) {
	c.s = s
	context.AfterFunc(s.ctx, c.close)
}

// take returns a connection for one call, to be given back.
func (c *conns) take() rediscmd.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inUse == maxConns {
		return nil
	}
	c.inUse++
	if n := len(c.free); n > 0 {
		conn := c.free[n-1]
		c.free = c.free[:n-1]
		return conn
	}
	return c.s.store.client.Conn(c.s.base)
}

func (c *conns) give(conn rediscmd.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse--
	if c.s.ctx.Err() != nil {
		conn.Close()
		return
	}
	c.free = append(c.free, conn)
}

// close closes the free connections when the session is over.
func (c *conns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.free {
		conn.Close()
	}
	c.free = nil
}

// with runs a call on a dedicated connection if one is free, else on the client.
func (s *session) with(ctx context.Context, call func(conn rediscmd.Conn) ([]any, error)) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: %w", driver.Inner(err)) // nothing was sent
	}
	conn := s.conns.take()
	if conn == nil {
		return call(s.store.client)
	}
	defer s.conns.give(conn)
	return call(conn)
}

// send sends plain commands.
func (s *session) send(ctx context.Context, commands *Commands) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redisstore: %w", driver.Inner(err)) // nothing was sent
	}
	conn := s.conns.take()
	if conn == nil {
		return s.store.client.Send(ctx, commands)
	}
	defer s.conns.give(conn)
	return conn.(Commander).Send(ctx, commands)
}
