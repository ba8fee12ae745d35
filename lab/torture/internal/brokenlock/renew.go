// SPDX-License-Identifier: Apache-2.0

package brokenlock

import (
	"context"
	"time"
)

// renew keeps the lock until it is unlocked, and ends its context at the
// deadline.
func (h *held) renew() {
	tick := time.NewTicker(h.l.ttl / 3)
	defer tick.Stop()
	for {
		left := time.NewTimer(time.Until(time.Unix(0, h.deadline.Load())))
		select {
		case <-h.stop:
			left.Stop()
			return
		case <-left.C:
			if h.over() {
				h.cancel()
				return
			}
			// The flaw goes on; do not spin.
			select {
			case <-h.stop:
				return
			case <-tick.C:
				h.extend()
			}
		case <-tick.C:
			left.Stop()
			go h.extend() // so that a call that hangs does not hold up the deadline
		}
	}
}

// over reports whether the holder gives up at its deadline.
func (h *held) over() bool {
	switch h.l.flaw {
	case "no-deadline", "never-notified", "renew-resurrects", "renew-anybodys", "renew-ignores-answer", "ghost-is-renewed", "renewal-outlives-unlock":
		return false
	case "renew-trusts-early":
		return time.Now().UnixNano() >= h.deadline.Load()
	}
	return true
}

// extend renews once.
func (h *held) extend() {
	l := h.l
	if l.flaw == "deadline-from-reply" {
		return
	}
	ctx, cancel := l.call(context.Background())
	defer cancel()
	sent := time.Now()
	if l.flaw == "renew-trusts-early" {
		h.trust(sent)
	}
	var ok bool
	var err error
	px := l.ttl.Milliseconds()
	switch l.flaw {
	case "renew-resurrects":
		ok, err = true, l.c.Set(ctx, h.name, l.id, l.ttl).Err()
	case "renew-anybodys", "renewal-outlives-unlock":
		ok, err = l.c.PExpire(ctx, h.name, l.ttl).Result()
	case "quorum-of-half", SoundQuorum:
		ok, err = l.extendNodes(ctx, h.name, px)
	default:
		ok, err = extend.Run(ctx, l.c, []string{h.name}, l.id, px).Bool()
	}
	switch {
	case err == nil && (ok || l.flaw == "renew-ignores-answer"):
		h.trust(sent)
	case err == nil:
		// The lock is gone: report the loss now, before the deadline.
		if h.over() && l.flaw != "renew-trusts-early" {
			h.deadline.Store(min(h.deadline.Load(), time.Now().UnixNano()))
			h.cancel()
		}
	}
}
