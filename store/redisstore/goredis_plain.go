// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/store/redisstore/internal/adapt"
	"github.com/fencelock/fencelock/store/redisstore/internal/liststore"
	"github.com/redis/go-redis/v9"
)

var _ liststore.Client = (*goRedis)(nil)

// Exec implements liststore.Commander. go-redis does not repeat a transaction with a command
// that forbids it, unless a node of a cluster answered that it did nothing.
func (g *goRedis) Exec(ctx context.Context, _ string, commands [][]string) ([]any, error) {
	return g.send(ctx, g.client.TxPipeline(), commands)
}

// Pipe implements liststore.Commander.
func (g *goRedis) Pipe(ctx context.Context, _ string, commands [][]string) ([]any, error) {
	return g.send(ctx, g.client.Pipeline(), commands)
}

func (g *goRedis) send(ctx context.Context, pipe redis.Pipeliner, commands [][]string) ([]any, error) {
	return adapt.Within(ctx, func() ([]any, error) {
		cmds := make([]once, 0, len(commands))
		for _, c := range commands {
			cmd := once{redis.NewCmd(ctx, words(c)...)}
			if keyed(c) {
				cmd.SetFirstKeyPos(1)
			}
			cmds = append(cmds, cmd)
			_ = pipe.Process(ctx, cmd) // sends nothing yet
		}
		_, err := pipe.Exec(ctx)
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, g.judge(ctx, err)
		}
		replies := make([]any, len(cmds))
		for i, cmd := range cmds {
			if replies[i], err = cmd.Result(); err != nil && !errors.Is(err, redis.Nil) {
				return nil, g.judge(ctx, err)
			}
		}
		return replies, nil
	})
}

// keyed reports whether the first argument of a command is its key.
func keyed(c []string) bool { return c[0] != "SCRIPT" && c[0] != "TIME" }
