// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestScoreIsPinned: where a name lives must never change. If this test fails, the
// code is wrong, not the test.
func TestScoreIsPinned(t *testing.T) {
	vectors := []struct {
		member, name string
		want         uint64
	}{
		{"a", "orders/42", 0x3c1044b903dae741},
		{"b", "orders/42", 0xbd88392b030f7849},
		{"redis-1.eu_west", "orders/42", 0x1f52d9d5cf0778b0},
		{"a", "", 0xcff7ca955cb5acf7},
		{"a", "日本 🔒", 0xd358cece4dd1ec76},
	}
	for _, v := range vectors {
		if got := score(digest(v.member), digest(v.name)); got != v.want {
			t.Errorf("score of %q at %q is %#016x, want %#016x", v.name, v.member, got, v.want)
		}
	}
}

func TestOwnersArePinned(t *testing.T) {
	s := named(t, "a", "b", "c", "d", "e")
	for name, want := range map[string]string{
		"orders/42": "c", "orders/43": "a", "orders/44": "a", "x": "b", "": "c", "日本 🔒": "c", "tenants/7/export": "c",
	} {
		if got := s.Owner(name); got != want {
			t.Errorf("%q is at %q, want %q", name, got, want)
		}
		if got := s.Shard(name); got != want+"/0" {
			t.Errorf("%q is on shard %q, want %q", name, got, want+"/0")
		}
	}
}

func named(t *testing.T, names ...string) *Store {
	t.Helper()
	var members []Member
	for _, n := range names {
		members = append(members, Member{Name: n, Store: memstore.New(nil)})
	}
	s, err := New(members, nil)
	must.OK(t, err)
	return s
}

// TestNamesSpreadEvenly: names that differ little, and members that do, are the
// usual ones.
func TestNamesSpreadEvenly(t *testing.T) {
	const names, members = 50_000, 8
	var list []string
	for i := range members {
		list = append(list, fmt.Sprint("redis-", i))
	}
	s := named(t, list...)
	count := map[string]int{}
	for i := range names {
		count[s.Owner(fmt.Sprint("orders/", i))]++
	}
	for _, m := range list {
		// The deviation is 0.9 % of the mean; five of them is chance enough.
		if mean := names / members; count[m] < mean*95/100 || count[m] > mean*105/100 {
			t.Errorf("%s keeps %d of %d names, want about %d", m, count[m], names, mean)
		}
	}
}

// TestOnlyTheNamesOfTheNewMemberMove: the others stay where they are, whatever the
// order of the list.
func TestOnlyTheNamesOfTheNewMemberMove(t *testing.T) {
	const names = 20_000
	before, after := named(t, "a", "b", "c"), named(t, "d", "c", "b", "a")
	moved := 0
	for i := range names {
		name := fmt.Sprint("orders/", i)
		was, is := before.Owner(name), after.Owner(name)
		if is == "d" {
			moved++
		} else if is != was {
			t.Fatalf("%q moved from %q to %q when d was added", name, was, is)
		}
	}
	if moved < names/4*95/100 || moved > names/4*105/100 {
		t.Errorf("%d of %d names moved, want about a quarter", moved, names)
	}
}
