// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"strconv"
	"time"
)

// slowest is from when on the server notes a command as slow.
const slowest = time.Millisecond

// WatchSlow makes the server note slow commands from now on. longest returns how long the
// longest of them took, by the server's wall clock, and 0 if none was slow. The server comes first on the machine from now on: otherwise
// that includes time in which it did not run.
func (r *Redis) WatchSlow(ctx context.Context) (longest func(context.Context) (time.Duration, error), err error) {
	for setting, value := range map[string]int64{"slowlog-log-slower-than": slowest.Microseconds(), "slowlog-max-len": 1 << 16} {
		if err := r.admin.ConfigSet(ctx, setting, strconv.FormatInt(value, 10)).Err(); err != nil {
			return nil, err
		}
	}
	ComeFirst(r.PID())
	if err := r.admin.Do(ctx, "SLOWLOG", "RESET").Err(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (most time.Duration, err error) {
		logs, err := r.admin.SlowLogGet(ctx, -1).Result()
		for _, l := range logs {
			most = max(most, l.Duration)
		}
		return most, err
	}, nil
}
