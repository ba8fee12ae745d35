// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/composite"
)

// Check asks every node whose store is a driver.Checker whether its servers are fit to keep
// locks. The Node of a finding begins with the name of the node. A node that does not answer
// is a finding (unreachable) and not an error: locks work while a majority of the nodes does.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	var all []composite.Part
	for _, n := range s.nodes {
		all = append(all, composite.Part{Name: n.Name, Store: n.Store})
	}
	return composite.Check(ctx, all, func(down int) driver.Finding {
		f := driver.Finding{Severity: driver.Warning, Fix: "start it",
			Reason: fmt.Sprintf("%d of %d nodes do not answer; locks work while a majority does", down, len(all))}
		if len(all)-down < s.majority() {
			f.Severity = driver.Danger
		}
		return f
	}), nil
}
