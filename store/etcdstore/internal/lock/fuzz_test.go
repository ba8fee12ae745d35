// SPDX-License-Identifier: Apache-2.0

package lock

import "testing"

// FuzzNames: a name stands in a key so that it is found again, and no two names have one key.
func FuzzNames(f *testing.F) {
	f.Fuzz(func(t *testing.T, a, b string) {
		back, err := Unescape(Escape(a))
		if err != nil || back != a {
			t.Errorf("%q became %q, %v", a, back, err)
		}
		if a != b && Escape(a) == Escape(b) {
			t.Errorf("%q and %q have one key", a, b)
		}
		_, _ = Unescape(b) // whatever it is
		_, _ = NewSpace(a).Parse(b)
	})
}
