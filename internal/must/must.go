// SPDX-License-Identifier: Apache-2.0

// Package must ends a test that cannot go on.
package must

import "testing"

// OK ends the test if there was an error. Use it for steps that lead to what is tested, where the error's own text is
// enough; what is tested deserves a sentence with what was wanted.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
