// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"reflect"
	"slices"
	"testing"
)

// TestOrders: every candidate is in every order once, none follows the same twice in a row,
// and the orders are those of the last run.
func TestOrders(t *testing.T) {
	for n := range 25 {
		all := orders(n, 6)
		if len(all) != 6 || !reflect.DeepEqual(all, orders(n, 6)) {
			t.Errorf("%d: orders %v, want six, the same each time", n, all)
		}
		before := map[int]int{}
		for _, order := range all {
			for at, who := range slices.Sorted(slices.Values(order)) {
				if at != who || len(order) != n {
					t.Errorf("%d: order %v lacks a candidate", n, order)
				}
			}
			follows := map[int]int{}
			for i := 1; i < len(order); i++ {
				follows[order[i]] = order[i-1]
				if whom, ok := before[order[i]]; ok && whom == order[i-1] {
					t.Errorf("%d: in %v %d follows %d again", n, all, order[i], whom)
				}
			}
			before = follows
		}
	}
}
