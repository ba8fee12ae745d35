// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/checkedstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/liststore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"pgregory.net/rapid"
)

// lists begins the namespaces that are kept as package liststore does.
const lists = "TestLists"

// listClocks are the clocks that scripts see, by namespace.
var listClocks sync.Map

func init() {
	checkedstore.Lists = func(namespace string) *liststore.Options {
		if !strings.HasPrefix(namespace, lists) {
			return nil
		}
		opts := &liststore.Options{Eager: true}
		if c, ok := listClocks.Load(namespace); ok {
			opts.Clock = c.(func() time.Time)
		}
		return opts
	}
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
			namespace := fmt.Sprintf("%s-grace=%t", lists, grace)
			listClocks.Store(namespace, func() time.Time { return p.now })
			walks := 0
			rapid.Check(t, func(r *rapid.T) {
				if walks++; walks <= 50 || *allLists {
					walk(r, p, client, namespace, grace)
				}
			})
			t.Logf("%d transactions and releases of plain commands", p.plainCalls)
		})
	}
}
