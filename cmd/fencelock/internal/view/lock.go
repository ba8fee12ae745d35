// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/plain"
)

// State is the state of a lock in one word.
func State(st *fencelock.Status) string {
	switch {
	case len(st.Holders) > 0 && st.Holders[0].Kept:
		return "kept"
	case len(st.Holders) > 0:
		return "held"
	case st.Waiting > 0:
		return "waited"
	}
	return "free"
}

// Oldest is the age of the first holder, 0 without a holder.
func Oldest(st *fencelock.Status) time.Duration {
	var age time.Duration
	for i := range st.Holders {
		age = max(age, st.Holders[i].Age)
	}
	return age
}

// Owners names the first holder and counts the others.
func Owners(st *fencelock.Status) string {
	switch n := len(st.Holders) + st.MoreHolders; {
	case n == 0:
		return "-"
	case n == 1:
		return st.Holders[0].Record.Owner
	default:
		return fmt.Sprintf("%s +%d", st.Holders[0].Record.Owner, n-1)
	}
}

// GraceLine explains why a lock that is not held is not granted.
func GraceLine(left time.Duration) string {
	return "the store is new or was reset; no new locks for " + plain.Short(left) + " (grace period)"
}

// EndsNext is when the first holder that lives ends unless it is renewed.
func EndsNext(st *fencelock.Status) time.Duration {
	next := time.Duration(1<<63 - 1)
	for i := range st.Holders {
		if !st.Holders[i].Kept {
			next = min(next, st.Holders[i].EndsIn)
		}
	}
	return next
}

// Waited is how long the first waiter has waited.
func Waited(st *fencelock.Status) time.Duration {
	var age time.Duration
	for i := range st.Waiters {
		age = max(age, st.Waiters[i].Age)
	}
	return age
}
