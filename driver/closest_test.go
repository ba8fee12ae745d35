// SPDX-License-Identifier: Apache-2.0

package driver

import "testing"

func TestClosest(t *testing.T) {
	known := []string{"namespace", "grace", "max_ttl", "ls", "inspect", "redis"}
	for word, want := range map[string]string{
		"namspace": "namespace", "namesapce": "namespace", "reddis": "redis", "lss": "ls", "maxttl": "max_ttl", "mxttl": "max_ttl", "ttl": "", "name": "namespace", "ce": "",
		"pool_size": "", "": "", "x": "", "redis": "redis", "inspekt": "inspect",
	} {
		if got := Closest(word, known...); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
