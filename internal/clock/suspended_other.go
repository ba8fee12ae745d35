// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package clock

import (
	"sync"
	"time"
)

var (
	started = time.Now()
	mu      sync.Mutex
	wall    gap
)

// machineSuspended derives the time suspended since the start of the process from
// the wall clock.
func machineSuspended() time.Duration {
	now := time.Now()
	ahead := now.Round(0).Sub(started.Round(0)) - now.Sub(started)
	mu.Lock()
	defer mu.Unlock()
	return wall.see(ahead)
}
