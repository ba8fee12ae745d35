// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// TestListLeavesOutWhatIsDenied: a node that the user may not read does not hide the locks beside it.
func TestListLeavesOutWhatIsDenied(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	store := open(t, e.Addrs(), curatorstore.Options{Root: "/partly"})
	for _, name := range []string{"a", "b/c", "d"} {
		o.claim("/partly/"+name, "lock-", nil)
	}
	_, err := o.SetACL("/partly/b", zk.WorldACL(zk.PermCreate), -1)
	must.OK(t, err)
	page, err := store.List(t.Context(), driver.ListQuery{Max: 10})
	must.OK(t, err)
	if len(page.Locks) != 2 || page.Locks[0].Name != "a" || page.Locks[1].Name != "d" {
		t.Errorf("listed %+v, want a and d", page.Locks)
	}
	_, err = o.SetACL("/partly", zk.WorldACL(zk.PermCreate), -1)
	must.OK(t, err)
	if _, err := store.List(t.Context(), driver.ListQuery{Max: 10}); err == nil {
		t.Error("a root that may not be read was listed without an error")
	}
}

// TestPageReadsItsPartOfTheTree: a page of List does not read what comes before its cursor, or what its
// prefix excludes.
func TestPageReadsItsPartOfTheTree(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("n%02d/x", i))
		o.claim("/paged/"+want[i], "lock-", nil)
	}
	proxy := through(t, e.Addrs()[0])
	var requests atomic.Int64
	proxy.Filter(func(_ int, toServer bool, data []byte) bool {
		if toServer {
			requests.Add(int64(bytes.Count(data, []byte("/paged/n"))))
		}
		return true
	})
	store := open(t, []string{proxy.Addr}, curatorstore.Options{Root: "/paged"})
	var got []string
	list := func(q driver.ListQuery) (next string) {
		page, err := store.List(t.Context(), q)
		must.OK(t, err)
		for _, st := range page.Locks {
			got = append(got, st.Name)
		}
		return page.Next
	}
	next := list(driver.ListQuery{Max: 100})
	if !slices.Equal(got, want) || next != "" {
		t.Fatalf("listed %v, then %q", got, next)
	}
	whole := requests.Swap(0)
	got = nil
	for cursor := ""; ; {
		if cursor = list(driver.ListQuery{Cursor: cursor, Max: 2}); cursor == "" {
			break
		}
	}
	// Each page reads the nodes of its cursor again, and those of the lock behind its last one.
	if paged := requests.Swap(0); !slices.Equal(got, want) || paged > 3*whole {
		t.Errorf("pages listed %v with %d requests; the whole list took %d", got, paged, whole)
	}
	got = nil
	list(driver.ListQuery{Prefix: "n07/", Max: 100})
	if n := requests.Swap(0); strings.Join(got, " ") != "n07/x" || n > whole/10 {
		t.Errorf("the prefix listed %v with %d requests; the whole list took %d", got, n, whole)
	}
}
