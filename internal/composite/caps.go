// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Common returns what two stores can both do. Whatever is not the same for both by a rule is the first one's: the
// name, Queue, Push, Assumes and Advice.
func Common(a, b driver.Caps) driver.Caps {
	a.Fencing = min(a.Fencing, b.Fencing)
	// Grants survive a crash if they do so in each of them, in whatever way.
	a.Grace = (a.Grace || b.Grace) && survives(a) && survives(b)
	a.Durability = min(a.Durability, b.Durability)
	a.Wanted = min(a.Wanted, b.Wanted)
	a.Linger = a.Linger && b.Linger
	a.Shared = a.Shared && b.Shared
	a.NoLimits = a.NoLimits || b.NoLimits
	a.Reentry = a.Reentry && b.Reentry
	a.Hold = a.Hold && b.Hold
	a.Listing = a.Listing && b.Listing
	a.Floor = a.Floor && b.Floor
	a.MinTTL = max(a.MinTTL, b.MinTTL)
	a.MaxTTL = shorter(a.MaxTTL, b.MaxTTL)
	return a
}

// survives reports whether grants survive a crash or a failover.
func survives(c driver.Caps) bool { return c.Durability == driver.Durable || c.Grace }

// shorter returns the lesser of two bounds, where 0 is no bound.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
