// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"
)

// TestReplacedMasterLeavesNoSlotWithoutNode: when a loss has come about, every node lists all
// slots in both answers from which clients learn who serves them.
func TestReplacedMasterLeavesNoSlotWithoutNode(t *testing.T) {
	t.Parallel()
	for _, f := range Flavors {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			f.Need(t)
			c := f.StartCluster(t, Never)
			if !c.listsShards() {
				t.Skip("clients of this version do not ask for CLUSTER SHARDS")
			}
			for range 3 {
				owner, err := c.owner(0)
				must(t, err)
				must(t, c.replace(owner))
				for _, n := range c.Nodes {
					if got := slotsOf(t, n); got != 16384 {
						t.Errorf("CLUSTER SHARDS of %s lists %d slots", n.Addr, got)
					}
				}
			}
		})
	}
}

// slotsOf counts the slots in the CLUSTER SHARDS of a node.
func slotsOf(t *testing.T, n *node) (total int64) {
	shards, err := n.Do("CLUSTER", "SHARDS").Slice()
	must(t, err)
	for _, s := range shards {
		ranges := s.([]any)[1].([]any)
		for i := 0; i+1 < len(ranges); i += 2 {
			total += ranges[i+1].(int64) - ranges[i].(int64) + 1
		}
	}
	return total
}
