// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/composite"
)

// Check asks every member whose store is a driver.Checker whether its servers are fit to keep
// locks. The Node of a finding begins with the name of the member. A member that does not
// answer is a finding (unreachable) and not an error: the names of the others can be locked.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	var all []composite.Part
	for _, m := range s.members {
		all = append(all, composite.Part{Name: m.Name, Store: m.Store})
	}
	return composite.Check(ctx, all, func(int) driver.Finding {
		return driver.Finding{Severity: driver.Danger, Reason: "it does not answer, so none of its names can be locked", Fix: "start it"}
	}), nil
}
