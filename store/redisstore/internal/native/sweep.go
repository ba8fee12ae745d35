// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"time"
)

// between is the time that a walk leaves to other calls.
const between = 2 * time.Millisecond

// walk removes the dead claims that are left in front of a queue, so that the first claim
// that lives behind them is granted the lock and need not wait for its own next poll. reply
// is that of the script that left them. An error ends the walk; polls go on then.
func (s *Store) walk(ctx context.Context, set layout, name string, reply []any) {
	for more(reply) {
		var err error
		if reply, err = s.callWith(ctx, set, wakeScript, set.shard(name), []string{name}, "0", "", name); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(between):
		}
	}
}

// more reports whether a script left dead claims in front of a queue: its reply ends with 1.
func more(reply []any) bool { return len(reply) > 1 && reply[len(reply)-1] == int64(1) }
