// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"strings"

	"github.com/fencelock/fencelock/driver"
)

var nameCases = []spec{
	{"O7", "side by side", nil, o7SideBySide},
	{"O7", "own holder", nil, o7OwnHolder},
	{"O7", "own queue", all(queue), o7OwnQueue},
	{"O7", "own limit", all(limits), o7OwnLimit},
}

// nastyNames are names that some server could take for each other, or for
// something else than a name.
var nastyNames = []string{
	"a", "A", "aa", "a/", "/a", "a/b", "a/b/c", "a//b", "a/../b", "a/.", "b",
	"a:b", "a.b", "a-b", "a_b", "a%b", "a,b", "a;b", "a|b", "a#b", "a&b", "a=b", "a+b", "a@b",
	" a", "a ", "a b", "a  b", // SQL collations pad with spaces
	"*", "a*", "a?", "a[b]", "[ab]", "a\\*", "^a", "a$", // globs and patterns
	"{a}", "{a}b", "{a}{b}", "b{a}", "{}", "a}", "{a", // hash tags of a Redis Cluster
	"'a'", `"a"`, "a\\", "`a`", "a--", "a'b",
	"\u00e9", "e\u0301", "e", "\u00c9", // é composed, decomposed, without the accent, in capitals
	"ß", "ss", "ı", "i", "I", "日本", "日", "🔒", "🔓", "0", "00", "-1", "null",
}

// allNames adds to the nasty names some of the greatest length, which differ in
// the last byte or are a prefix of another.
func (t *scene) allNames() []string {
	var names []string
	for _, n := range nastyNames {
		names = append(names, t.name(n))
	}
	long := strings.Repeat("x", driver.MaxNameBytes-1-len(t.prefix))
	return append(names, t.name(long), t.name(long+"x"), t.name(long+"y"))
}

// grantAll locks each name with a separate session.
func (t *scene) grantAll(names []string) []*request {
	var held []*request
	for _, name := range names {
		held = append(held, t.open(name).grant(name))
	}
	return held
}

func o7SideBySide(t *scene) {
	names := t.allNames()
	held := t.grantAll(names)
	for _, w := range held {
		t.open(w.claim.Name).want(w.claim.Name).busy()
	}
	for i, w := range held {
		w.mustFind(driver.WasGranted)
		t.mustBeFree(w.claim.Name)
		for _, other := range held[i+1 : min(i+3, len(held))] {
			t.mustHold(other.claim.Name, other)
		}
	}
}

func o7OwnHolder(t *scene) {
	for _, w := range t.grantAll(t.allNames()) {
		if t.store.Shard(w.claim.Name) != t.other().Shard(w.claim.Name) {
			t.errorf("two processes see %q on different shards", w.claim.Name)
		}
		t.mustHold(w.claim.Name, w)
	}
}

func o7OwnQueue(t *scene) {
	names := t.allNames()
	held := t.grantAll(names)
	var waiting []*request
	for _, name := range names {
		waiting = append(waiting, t.open(name).queue(name))
	}
	for i, w := range waiting {
		w.queuedAt(0)
		held[i].withdraw()
		w.granted()
	}
}

func o7OwnLimit(t *scene) {
	a, b := t.name("a"), t.name("a/b")
	t.setLimit(a, 1)
	t.open(a).grant(a, share(1, 5))
	t.open(a).want(a, share(1, 5)).busy()
	t.open(b).grant(b, share(1, 5))
	t.open(b).grant(b, share(1, 5))
	if st := t.inspect(b); st.Limit != 0 {
		t.fatalf("lock %q shows limit %d, want none", b, st.Limit)
	}
}
