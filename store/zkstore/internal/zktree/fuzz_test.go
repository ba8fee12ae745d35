// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzNodes: children of a lock that another program made, and what is stored with them, are
// left out or used without a panic; the name of a claim is written as it was read.
func FuzzNodes(f *testing.F) {
	f.Fuzz(func(t *testing.T, children, stored string) {
		var lim limit
		var r record
		_ = json.Unmarshal([]byte(stored), &lim)
		_ = json.Unmarshal([]byte(stored), &r)
		r.refuses(1)
		claims, extra := arrange(strings.Split(children, "\n"), parse)
		l := evaluate(claims, lim)
		if len(l.granted)+len(l.waiting) != len(claims) {
			t.Errorf("%d granted and %d waiting of %d", len(l.granted), len(l.waiting), len(claims))
		}
		for i := range l.waiting {
			l.blocker(i)
		}
		for _, n := range append(claims, extra...) {
			again, ok := parse(placed(nativeLayout{}, n))
			again.name = n.name
			if !ok || again != n {
				t.Errorf("%+v became %+v, %t", n, again, ok)
			}
		}
	})
}
