// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// refusals is a hook of go-redis that counts the attempts which found a lock held, by its key.
type refusals struct {
	mu sync.Mutex
	by map[string]int
}

// twiceMore reports whether two attempts more have found a lock held than when it was called: that before a subscription, and that
// after it.
func (r *refusals) twiceMore(key string) func() bool {
	before := r.count(key)
	return func() bool { return r.count(key) >= before+2 }
}

func (r *refusals) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[key]
}

// DialHook implements redis.Hook.
func (*refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (r *refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Slice() ([]any, error) }); ok && err == nil && strings.HasPrefix(cmd.Name(), "eval") {
			if values, err := reply.Slice(); err == nil && len(values) > 0 && values[0] == "busy" {
				r.note(cmd.Args())
			}
		}
		return err
	}
}

// note counts for each word of a command, one of which is the key.
func (r *refusals) note(args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int{}
	}
	var words []string
	for _, a := range args {
		words = append(words, fmt.Sprint(a))
	}
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		r.by[w]++
	}
}
