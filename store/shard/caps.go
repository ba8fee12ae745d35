// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// weakest returns what all members can do. It fails where no answer would be
// true for every name.
func weakest(members []Member) (driver.Caps, error) {
	caps := members[0].Store.Caps()
	var servers, advice, assumes []string
	for _, m := range members {
		c := m.Store.Caps()
		if c.Queue != caps.Queue || c.Push != caps.Push {
			// Whether turns are fair, or a wait is pushed, would depend on the
			// name of the lock.
			return caps, fmt.Errorf("shard: members %q and %q differ in Caps.Queue or Caps.Push; use members of one kind", members[0].Name, m.Name)
		}
		if !slices.Contains(servers, c.Engine) {
			servers = append(servers, c.Engine)
		}
		if c.Advice != "" {
			advice = append(advice, fmt.Sprintf("member %s: %s", m.Name, c.Advice))
		}
		if c.Assumes != "" && !slices.Contains(assumes, c.Assumes) {
			assumes = append(assumes, c.Assumes)
		}
		caps = both(caps, c)
	}
	if caps.MaxTTL > 0 && caps.MinTTL > caps.MaxTTL {
		return caps, errors.New("shard: no TTL suits all members: the greatest MinTTL is " +
			caps.MinTTL.String() + ", the least MaxTTL " + caps.MaxTTL.String())
	}
	caps.Engine = "shard of " + strings.Join(servers, ", ")
	caps.Advice = strings.Join(advice, "; ")
	caps.Assumes = strings.Join(assumes, "\n")
	return caps, nil
}

// both returns what two members can both do.
func both(a, b driver.Caps) driver.Caps {
	a.Fencing = min(a.Fencing, b.Fencing)
	// Grants survive a crash if they do so on each member, in whatever way.
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
