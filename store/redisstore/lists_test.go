// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/store/redisstore/internal/checkedstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// lists begins the namespaces that are kept as package liststore does.
const lists = "TestLists"

func init() { checkedstore.Lists = func(namespace string) bool { return strings.HasPrefix(namespace, lists) } }

// TestListsConform is TestConformance for package liststore.
func TestListsConform(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		for _, flavour := range redistest.Flavors {
			t.Run(place.name+"/"+string(flavour), func(t *testing.T) {
				t.Parallel()
				flavour.Need(t)
				to, losses := place.start(t, flavour)
				for _, lib := range libraries {
					for _, grace := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/grace=%t", lib.name, grace), func(t *testing.T) {
							conform(t, lib, grace, to, losses, place.buckets)
						})
					}
				}
			})
		}
	}
}
