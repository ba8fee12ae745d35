// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package clock

import (
	"sync"
	"time"
)

// slewed is how far a time daemon may move the wall clock without a suspend.
const slewed = 2 * time.Second

var (
	started   = time.Now()
	mu        sync.Mutex
	suspended time.Duration
)

// machineSuspended returns how far the wall clock has run ahead of the
// monotonic one since the start of the process. A forward step of the wall
// clock looks the same; it costs a lease, never a guarantee.
func machineSuspended() time.Duration {
	now := time.Now()
	ahead := now.Round(0).Sub(started.Round(0)) - now.Sub(started)
	mu.Lock()
	defer mu.Unlock()
	if ahead > suspended+slewed {
		suspended = ahead
	}
	return suspended
}
