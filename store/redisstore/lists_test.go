// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/store/redisstore/internal/checkedstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"pgregory.net/rapid"
)

// lists begins the namespaces that are kept as package liststore does.
const lists = "TestLists"

func init() {
	checkedstore.Lists = func(namespace string) bool { return strings.HasPrefix(namespace, lists) }
}

var allLists = flag.Bool("lists.all", false, "run TestLists on all servers, in all arrangements, and as long as TestConformance")

// TestListsConform is TestConformance for package liststore. Without -lists.all it is short:
// nothing but tests uses that package yet.
func TestListsConform(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		for _, flavour := range redistest.Flavors {
			if !*allLists && (place.name != "one" || flavour != redistest.Redis) {
				continue
			}
			t.Run(place.name+"/"+string(flavour), func(t *testing.T) {
				t.Parallel()
				flavour.Need(t)
				to, losses := place.start(t, flavour)
				for i, lib := range libraries {
					for _, grace := range []bool{false, true} {
						if !*allLists && grace != (i == 0) {
							continue
						}
						t.Run(fmt.Sprintf("%s/grace=%t", lib.name, grace), func(t *testing.T) {
							conform(t, lib, grace, to, losses, place.buckets)
						})
					}
				}
			})
		}
	}
}

// TestListsAgainstModel is TestScriptsAgainstModel for package liststore.
func TestListsAgainstModel(t *testing.T) {
	t.Parallel()
	for _, grace := range []bool{false, true} {
		t.Run(fmt.Sprintf("grace=%t", grace), func(t *testing.T) {
			t.Parallel()
			p, client := newPretence(t, redistest.Start(t).Addr)
			walks := 0
			rapid.Check(t, func(r *rapid.T) {
				if walks++; walks <= 50 || *allLists {
					walk(r, p, client, lists, grace)
				}
			})
		})
	}
}
