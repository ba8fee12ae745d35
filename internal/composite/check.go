// SPDX-License-Identifier: Apache-2.0

// Package composite is what stores that are made of other stores have in common.
package composite

import (
	"context"
	"fmt"
	"slices"
	"sync"

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
