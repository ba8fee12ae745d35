// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzURL: whatever a URL looks like, reading it does not panic, and no error shows what
// comes before its last @: that may be a password.
func FuzzURL(f *testing.F) {
	const secret = "hunter2"
	f.Fuzz(func(t *testing.T, before, after, tail string) {

		for _, scheme := range []string{"zk"} {
			text := scheme + "://u:" + before + secret + after + "@h" + tail
			err := func() error {
				servers, opts, err := parseURL(text, nil)
				if err == nil {
					_, err = New(servers, opts)
				}
				return err
			}()
			if err != nil && !strings.Contains(tail, secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the password: %v", text, err)
			}
		}
	})
}

// FuzzNodes: children of a lock that another program made, and what is stored with them, are
// left out or used without a panic; the name of a claim is written as it was read.
func FuzzNodes(f *testing.F) {
	f.Fuzz(func(t *testing.T, children, stored string) {
		var lim limit
		var r record
		_ = json.Unmarshal([]byte(stored), &lim)
		_ = json.Unmarshal([]byte(stored), &r)
		r.refuses(1)
		claims, extra := arrange(strings.Split(children, "\n"))
		l := evaluate(claims, lim)
		if len(l.granted)+len(l.waiting) != len(claims) {
			t.Errorf("%d granted and %d waiting of %d", len(l.granted), len(l.waiting), len(claims))
		}
		for i := range l.waiting {
			l.blocker(i)
		}
		for _, n := range append(claims, extra...) {
			again, ok := parse(n.placed())
			again.name = n.name
			if !ok || again != n {
				t.Errorf("%+v became %+v, %t", n, again, ok)
			}
		}
	})
}
