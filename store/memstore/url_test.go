// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"strings"
	"testing"
	"time"
)

// TestOptionsAndURLMustNotDiffer: a setting in both places must have one value.
func TestOptionsAndURLMustNotDiffer(t *testing.T) {
	opts := &Options{MaxTTL: time.Second, Grace: true}
	for url, want := range map[string]string{
		"mem://?max_ttl=2s":  "Options.MaxTTL",
		"mem://?grace=false": "Options.Grace",
	} {
		if _, err := Open(t.Context(), url, opts); err == nil || !strings.Contains(err.Error(), "in the URL and "+want+" differ") {
			t.Errorf("%s: got %v, want an error that names %s", url, err, want)
		}
	}
	s, err := Open(t.Context(), "mem://?max_ttl=1s&grace=true", opts)
	if err != nil || !s.Caps().Grace || s.Caps().MaxTTL != time.Second {
		t.Errorf("the same in both: %v, %v", s, err)
	}
}
