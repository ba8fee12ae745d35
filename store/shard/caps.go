// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/composite"
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
		caps = composite.Common(caps, c)
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
