// SPDX-License-Identifier: Apache-2.0

package leases

import "sync/atomic"

// maxIdle is how many goroutines without work are kept.
const maxIdle = 16

// workers are goroutines that acquire locks. One that has finished takes the next acquisition: a new goroutine has a small
// stack, and to grow it on the way to the store takes a tenth of the server's processor time for the call.
type workers struct {
	work    chan func()
	idle    atomic.Int32
	closing <-chan struct{}
}

// do runs f in a goroutine.
func (w *workers) do(f func()) {
	select {
	case w.work <- f: // one waits
	default:
		go w.run(f)
	}
}

func (w *workers) run(f func()) {
	for {
		f()
		if w.idle.Add(1) > maxIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case f = <-w.work:
			w.idle.Add(-1)
		case <-w.closing:
			return
		}
	}
}
