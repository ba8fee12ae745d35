// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// busyScript counts, because neither the clock nor the processor's clock can be read in a
// script of every version.
const busyScript = `local n = tonumber(ARGV[1]); for i = 1, n do n = n end; return 1`

// firstCount is how far the first script counts; those after it are measured by it.
const firstCount = 1e6

// Occupy implements Occupied.
func (r *Redis) Occupy(ctx context.Context, by, d time.Duration) error {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true, MaxRetries: -1, ReadTimeout: 10 * time.Second})
	defer c.Close()
	count := float64(firstCount)
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(by) {
		began := time.Now()
		if err := c.Eval(ctx, busyScript, nil, int64(count)).Err(); err != nil {
			return err
		}
		// At most ten times as far: on a busy machine one measurement means little.
		count *= min(10, max(0.1, by.Seconds()/time.Since(began).Seconds()))
	}
	return nil
}
