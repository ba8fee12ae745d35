// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/fence"
)

func TestCheck(t *testing.T) {
	kept := fence.Mark{Lock: "a", Token: 512, Holder: "ann@host:1"}
	for _, tt := range []struct {
		name        string
		kept, given fence.Mark
		want        error
	}{
		{"first", fence.Mark{}, fence.Mark{Lock: "a", Token: 1}, nil},
		{"same", kept, fence.Mark{Lock: "a", Token: 512}, nil},
		{"same token, other holder", kept, fence.Mark{Lock: "a", Token: 512, Holder: "bob"}, nil},
		{"newer", kept, fence.Mark{Lock: "a", Token: 513}, nil},
		{"greatest", kept, fence.Mark{Lock: "a", Token: math.MaxInt64}, nil},
		{"older", kept, fence.Mark{Lock: "a", Token: 511}, fence.ErrStale},
		{"older by its digits only", fence.Mark{Lock: "a", Token: 1000}, fence.Mark{Lock: "a", Token: 999}, fence.ErrStale},
		{"other lock, newer", kept, fence.Mark{Lock: "b", Token: 1024}, fence.ErrWrongLock},
		{"other lock, older", kept, fence.Mark{Lock: "b", Token: 1}, fence.ErrWrongLock},
		{"none", kept, fence.Mark{Lock: "a"}, fence.ErrNoToken},
		{"none at first", fence.Mark{}, fence.Mark{Lock: "a"}, fence.ErrNoToken},
		{"negative", fence.Mark{}, fence.Mark{Lock: "a", Token: -1}, fence.ErrNoToken},
	} {
		if err := fence.Check(tt.kept, tt.given); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestStaleErrorNamesTheNewer(t *testing.T) {
	newer := fence.Mark{Lock: "a", Token: 512, Holder: "ann@host:1"}
	err := fence.Check(newer, fence.Mark{Lock: "a", Token: 256, Holder: "bob@host:2"})
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Newer != newer || stale.Given.Holder != "bob@host:2" {
		t.Fatalf("got %#v", err)
	}
	for _, word := range []string{"stale", "256", `"a"`, "512", "ann@host:1"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %s", err, word)
		}
	}
	stale.Newer = fence.Mark{}
	if text := stale.Error(); strings.Contains(text, "before") || strings.Contains(text, "from") {
		t.Errorf("%q names what is not known", text)
	}
}
