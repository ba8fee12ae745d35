// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Loser is a hook of go-redis that loses the replies to scripts while On is set: the server has run them, and their
// caller does not learn what came of it.
type Loser struct {
	On   atomic.Bool
	Lost atomic.Int64
}

var _ redis.Hook = (*Loser)(nil)

// DialHook implements redis.Hook.
func (*Loser) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*Loser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (l *Loser) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && l.On.Load() && strings.HasPrefix(cmd.Name(), "eval") {
			l.Lost.Add(1)
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return err
	}
}
