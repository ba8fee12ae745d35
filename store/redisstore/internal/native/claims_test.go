// SPDX-License-Identifier: Apache-2.0

package native

import "testing"

// TestReclaimedClaimGetsItsRecord: a claim that was reclaimed has no record until it is attempted again; then its element is made
// of it, which plain commands give back by its value.
func TestReclaimedClaimGetsItsRecord(t *testing.T) {
	var c claims
	k, _, _ := c.begin(&claim{seq: 1, name: "x"})
	c.stands(k, 7, "")
	again, was, _ := c.begin(&claim{seq: 1, name: "x", record: `{"owner":"ann"}`})
	if again != k || was != granted || k.record != `{"owner":"ann"}` {
		t.Errorf("the record of a claim that was reclaimed is %q, in state %v", k.record, was)
	}
}

// TestBatchTakesReleasesFirst: a claim in the same batch may be for the same lock. Nothing else changes the order of the operations, because
// the end of a context goes over them at any time.
func TestBatchTakesReleasesFirst(t *testing.T) {
	var next batch
	next.take([]*operation{{name: "a"}, {name: "b", release: true}, {name: "c"}, {name: "d", release: true}})
	order := ""
	for _, o := range next.operations {
		order += o.name
	}
	if order != "bdac" {
		t.Errorf("the operations are %s, want bdac", order)
	}
}
