// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

const (
	someID   = "f290140d985642adb9bf348ffc086062"
	someUUID = "f290140d-9856-42ad-b9bf-348ffc086062"
)

// TestContenders: the names of every program that shares a lock, and what is not a claim.
func TestContenders(t *testing.T) {
	for name, want := range map[string]node{
		"_c_" + someUUID + "-lock-0000000759":                   {session: someID, place: 759, foreign: true},
		"_c_" + someID + "-lock-0000000001":                     {session: someID, place: 1, foreign: true},
		someID + "__lock__0000000005":                           {session: someID, place: 5, foreign: true},
		someID + "__rlock__0000000005":                          {session: someID, place: 5, foreign: true, mode: driver.Shared},
		"_c_" + someUUID + "-7-lock-0000000008":                 {session: someID, seq: 7, place: 8},
		"_c_" + someUUID + "-7-latch-0000000008":                {session: someID, seq: 7, place: 8},
		"_c_" + someUUID + "-7-__WRIT__0000000008":              {session: someID, seq: 7, place: 8},
		"_c_" + someUUID + "-7-8704-__READ__0000000008":         {session: someID, seq: 7, place: 8, token: 8704, mode: driver.Shared},
		"_c_" + someUUID + "-__READ__0000000008":                {session: someID, place: 8, foreign: true, mode: driver.Shared},
		"_c_" + someUUID + "-lock--2147483648":                  {session: someID, place: -2147483648, foreign: true},
		"_c_" + someUUID + "-__WRIT__-2147483648":               {session: someID, place: -2147483648, foreign: true},
		"lock-0000000003":                                       {place: 3, foreign: true},
		"_c_" + someUUID + "-x-lock-0000000003":                 {session: someID, place: 3, foreign: true},
		"_c_" + someUUID + "-7-8-9-lock-0000000003":             {session: someID, place: 3, foreign: true},
		"_c_00000000-0000-0000-0000-000000000000-1-lock-" + ten: {session: strings.Repeat("0", 32), seq: 1, place: 10},
	} {
		want.name, want.weight = name, 1
		if got, _, ok := contender(name); !ok || got != want {
			t.Errorf("%s: got %+v, %t, want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "pin", "0", "lock-", "lock-000000001", "lock-00000000012", "x-5-0000000001", "orders0000000001", "_c_" + someUUID + "-lock-9999999999"} {
		if got, word, ok := contender(name); ok {
			t.Errorf("%q was taken for the claim %+v before %s", name, got, word)
		}
	}
}

const ten = "0000000010"

// TestClaimsComeBack: a name that the layout writes is read as it was meant, whatever the recipe.
func TestClaimsComeBack(t *testing.T) {
	for _, recipe := range []Recipe{Mutex, ReadWrite, Latch} {
		k := &Curator{Recipe: recipe}
		n := node{session: someID, seq: 7, weight: 1, place: 12, token: 512 * 17}
		n.name = placed(k, n)
		got, word, ok := contender(n.name)
		if !ok || got != n || !slices.Contains(k.words(), word) {
			t.Errorf("%s: got %+v, %s, %t", n.name, got, word, ok)
		}
		if len(strings.TrimPrefix(n.name, "_c_")) < 32 {
			t.Errorf("%s: zk.Lock slices 32 bytes after _c_", n.name)
		}
	}
}

// TestStrangeChildren: a child that Curator could take for the holder makes the lock unreadable; one
// that it sorts behind every claim does not.
func TestStrangeChildren(t *testing.T) {
	mine := "_c_" + someUUID + "-7-lock-0000000008"
	for child, want := range map[string]string{
		"pin":                                    "",
		"sub":                                    "",
		"3abc":                                   "",
		"_c_" + someUUID + "-orders0000000001":   "",
		"0abc":                                   "not a claim",
		"x-lock-0":                               "not a claim",
		"_c_" + someUUID + "-__WRIT__0000000001": "another recipe (WRIT)",
		"_c_" + someUUID + "-latch-0000000001":   "another recipe (latch)",
		"_c_" + someUUID + "-lease-0000000001":   "another recipe (lease)",
		someID + "__rlock__0000000001":           "another recipe (rlock)",
		"_c_" + someUUID + "-lock--2147483648":   "end of ZooKeeper's counter",
		"_c_" + someUUID + "-lock-" + fmt.Sprint(maxPlace):      "end of ZooKeeper's counter",
		"_c_" + someUUID + "-lock-" + fmt.Sprint(maxPlace-1):    "",
		"_c_00000000-0000-0000-0000-000000000000-1-lock-" + ten: "",
	} {
		claims, _, strange := (&Curator{}).arrange([]string{mine, child})
		if want == "" && strange != nil || want != "" && (strange == nil || !strings.Contains(strange.Error(), want)) {
			t.Errorf("%s: got %v, want %q", child, strange, want)
		}
		if len(claims) == 0 || !slices.ContainsFunc(claims, func(n node) bool { return n.name == mine }) {
			t.Errorf("%s: the claim is not among %v", child, claims)
		}
	}
}

// TestRulesOfReadersAndWriters: a writer waits for every lower number, a reader for every writer with
// a lower one; a reader in the place of a writer is its own downgrade.
func TestRulesOfReadersAndWriters(t *testing.T) {
	k := &Curator{Recipe: ReadWrite}
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var names []string
		for place := range 1 + r.IntN(6) {
			word := []string{"__READ__", "__WRIT__"}[r.IntN(2)]
			held := len(names) == 0
			if r.IntN(4) > 0 {
				names = append(names, fmt.Sprintf("_c_%032x-%s%010d", r.Uint64(), word, place))
			}
			if word == "__WRIT__" && held && r.IntN(4) == 0 {
				names = append(names, fmt.Sprintf("_c_%032x-__READ__%010d", r.Uint64(), place))
			}
		}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		claims, _, strange := k.arrange(names)
		must.OK(t, strange)
		ln := evaluate(claims, limit{})
		for _, n := range claims {
			free := !slices.ContainsFunc(claims, func(o node) bool {
				return o.place < n.place && (o.mode == driver.Exclusive || n.mode == driver.Exclusive)
			})
			if granted := slices.ContainsFunc(ln.granted, func(g node) bool { return g.name == n.name }); granted != free {
				t.Fatalf("%s of %v: granted %t, want %t", n.name, names, granted, free)
			}
		}
	}
}

func TestPathsOfZooKeeper(t *testing.T) {
	for path, want := range map[string]bool{
		"/a": true, "/a/b": true, "/é": true, "/a b": true, "/..a": true,
		"": false, "a": false, "/": false, "/a/": false, "//a": false, "/a//b": false, "/a/./b": false, "/..": false,
		"/a\x00": false, "/a\n": false, "/a\u0085": false, "/a\ue000": false, "/a\ufff0": false, "/\xff": false,
		"/a\U0001F600": false, "/\U00010000": false, "/中": true,
	} {
		if goodPath(path) != want {
			t.Errorf("%q: want %t", path, want)
		}
	}
}

func TestOrderOfAWalk(t *testing.T) {
	names := []string{"a-b", "a/b", "a", "a/b/c", "b"}
	slices.SortFunc(names, inOrder)
	if got := strings.Join(names, " "); got != "a a/b a/b/c a-b b" {
		t.Errorf("got %s", got)
	}
}

// TestPartOfAWalk: a walk leaves out what comes before the cursor, and what the prefix excludes.
func TestPartOfAWalk(t *testing.T) {
	for _, tt := range []struct {
		name, cursor, prefix string
		want                 bool
	}{
		{"a", "", "", true},
		{"a", "a/b", "", true}, {"a", "a", "", true}, {"a", "a-b", "", false}, {"a/b", "a", "", true}, {"a/b", "a/c", "", false},
		{"b", "a", "", true}, {"a", "b", "", false}, {"a/b", "a-b", "", false},
		{"a", "", "a/b", true}, {"a", "", "a/", true}, {"a", "", "ab", false}, {"ab", "", "a", true}, {"b", "", "a", false}, {"a", "b", "a", false},
	} {
		if got := reaches(tt.name, driver.ListQuery{Cursor: tt.cursor, Prefix: tt.prefix}); got != tt.want {
			t.Errorf("%q after %q with the prefix %q: %t", tt.name, tt.cursor, tt.prefix, got)
		}
	}
}

// FuzzContenders: whatever the children of a path are, reading them does not panic, and a claim of
// ours is written as it was read.
func FuzzContenders(f *testing.F) {
	f.Add("_c_" + someUUID + "-7-lock-0000000008\n" + someID + "__lock__0000000005")
	f.Fuzz(func(t *testing.T, children string) {
		for _, recipe := range []Recipe{Mutex, ReadWrite, Latch} {
			k := &Curator{Recipe: recipe}
			claims, extra, _ := k.arrange(strings.Split(children, "\n"))
			l := evaluate(claims, limit{})
			if len(l.granted)+len(l.waiting) != len(claims) {
				t.Errorf("%d granted and %d waiting of %d", len(l.granted), len(l.waiting), len(claims))
			}
			for _, n := range append(claims, extra...) {
				if n.foreign || n.place < 0 {
					continue
				}
				again, _, ok := contender(placed(k, n))
				again.name, again.mode = n.name, n.mode
				if !ok || again != n {
					t.Errorf("%+v became %+v, %t", n, again, ok)
				}
			}
		}
	})
}
