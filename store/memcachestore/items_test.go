// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestDocumentedItemsHaveTheirFields: what the page shows of the items can be read as items.
func TestDocumentedItemsHaveTheirFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/memcached.md")
	must.OK(t, err)
	lines := regexp.MustCompile(`(?m)^\{".*\}$`).FindAll(page, -1)
	if len(lines) != 2 {
		t.Fatalf("the page shows %d items, want a lock and a session", len(lines))
	}
	for i, item := range []any{&lockItem{}, &sessionItem{}} {
		d := json.NewDecoder(bytes.NewReader(lines[i]))
		d.DisallowUnknownFields()
		if err := d.Decode(item); err != nil {
			t.Errorf("%s: %v", lines[i], err)
		}
	}
}
