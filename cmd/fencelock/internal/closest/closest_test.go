// SPDX-License-Identifier: Apache-2.0

package closest_test

import (
	"testing"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/closest"
)

func TestMatch(t *testing.T) {
	known := []string{"namespace", "grace", "max_ttl", "ls", "inspect", "redis"}
	for word, want := range map[string]string{
		"namspace": "namespace", "namesapce": "namespace", "reddis": "redis", "lss": "ls", "maxttl": "max_ttl",
		"pool_size": "", "": "", "x": "", "redis": "redis", "inspekt": "inspect",
	} {
		if got := closest.Match(word, known...); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := closest.Hint("lss", known...); got != ` (did you mean "ls"?)` {
		t.Errorf("got %s", got)
	}
	if got := closest.Hint("pool_size", known...); got != "" {
		t.Errorf("got %s", got)
	}
}
