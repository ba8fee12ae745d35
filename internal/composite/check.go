// SPDX-License-Identifier: Apache-2.0

// Package composite is what stores that are made of other stores have in common.
package composite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Part is a store with the name that it has in the store that it is a part of.
type Part struct {
	Name  string
	Store driver.Store
}

// Check asks every part that is a driver.Checker at once and returns the findings of all, in
// the order of the parts. A finding's Node begins with the name of its part. A part that
// does not answer is a finding with the code unreachable; down makes it, from how many parts
// do not answer.
func Check(ctx context.Context, all []Part, down func(n int) driver.Finding) []driver.Finding {
	found, errs := make([][]driver.Finding, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	for i, p := range all {
		if c, ok := p.Store.(driver.Checker); ok {
			asking.Go(func() { found[i], errs[i] = c.Check(ctx) })
		}
	}
	asking.Wait()
	missing := 0
	for _, err := range errs {
		if err != nil {
			missing++
		}
	}
	for i, p := range all {
		for j := range found[i] {
			found[i][j].Node = node(p.Name, found[i][j].Node)
		}
		if errs[i] != nil {
			f := down(missing)
			f.Code, f.Node, f.Reason = "unreachable", p.Name, fmt.Sprintf("%s: %v", f.Reason, errs[i])
			found[i] = append(found[i], f)
		}
	}
	return slices.Concat(found...)
}

// node is a server of a part: the name of the part, and the server's address if it is not
// the name itself.
func node(part, server string) string {
	if server == "" || server == part {
		return part
	}
	return fmt.Sprintf("%s (%s)", part, server)
}

// Common returns what two stores can both do. Whatever is not the same for both by a rule is the first one's: the
// name, Queue, Push, Assumes and Advice.
func Common(a, b driver.Caps) driver.Caps {
	a.Fencing = min(a.Fencing, b.Fencing)
	// Grants survive a crash if they do so in each of them, in whatever way.
	a.Grace = (a.Grace || b.Grace) && survives(a) && survives(b)
	a.Durability = min(a.Durability, b.Durability)
	a.Contended = min(a.Contended, b.Contended)
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
