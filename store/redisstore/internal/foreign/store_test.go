// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"strings"
	"testing"
)

// TestCheckOfAWritableReplica: a replica that accepts writes grants locks, so Check must not say that it grants nothing.
func TestCheckOfAWritableReplica(t *testing.T) {
	for readOnly, want := range map[string]string{"1": "grants nothing", "0": "grants what its master grants too"} {
		found := judge("a:1", "# Replication\r\nrole:slave\r\nslave_read_only:"+readOnly+"\r\n", false)
		if len(found) != 1 || found[0].Code != "replica" || !strings.Contains(found[0].Reason, want) {
			t.Errorf("slave_read_only:%s: %v", readOnly, found)
		}
	}
}
