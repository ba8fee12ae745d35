// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/redis/go-redis/v9"
)

var _ native.Client = (*Client)(nil)

// Send implements native.Commander. go-redis does not repeat commands of which one forbids
// it, unless a node of a cluster answered that it did nothing.
func (g *Client) Send(ctx context.Context, c *native.Commands) error {
	_, err := within(ctx, g, func() (struct{}, error) { return struct{}{}, g.judge(ctx, g.send(ctx, c)) })
	return err
}

func (g *Client) send(ctx context.Context, c *native.Commands) error {
	cmds := make([]redis.Cmder, c.Len())
	for i := range cmds {
		command := c.Command(i)
		cmd := once{redis.NewCmd(ctx, words(command)...)}
		if native.Keyed(command) {
			cmd.SetFirstKeyPos(1)
		}
		cmds[i] = cmd
	}
	pipe := g.client.Pipeline()
	if c.Transaction {
		pipe = g.client.TxPipeline()
	}
	_ = pipe.BatchProcess(ctx, cmds...) // sends nothing yet
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds {
		v, err := cmd.(once).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		note(c, v)
	}
	return nil
}

// note notes a value, or those of a list.
func note(c *native.Commands, v any) {
	switch v := v.(type) {
	case string:
		c.Replied(native.Reply{Text: v})
	case int64:
		c.Replied(native.Reply{Number: v})
	case []any:
		for _, part := range v {
			note(c, part)
		}
	default:
		c.Replied(native.Reply{})
	}
}
