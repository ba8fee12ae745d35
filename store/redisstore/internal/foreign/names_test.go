// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// TestCompanionsFollowRedissonsRule: any brace in a name counts as a hash tag.
func TestCompanionsFollowRedissonsRule(t *testing.T) {
	for key, want := range map[string]string{
		"orders": "redisson_lock__channel:{orders}", "a{b}": "redisson_lock__channel:a{b}", "a{": "redisson_lock__channel:a{", "a}": "redisson_lock__channel:{a}}",
	} {
		if got, text := new(Store).channelOf(key); got != want || text != "" {
			t.Errorf("the channel of %s is %s, want %s", key, got, want)
		}
	}
}

// TestSplitNames: Redisson locks these on a cluster and cannot unlock them.
func TestSplitNames(t *testing.T) {
	for key, want := range map[string]bool{"a": false, "{a}": false, "a{b}c": false, "a{b": true, "a{}b": true, "a}b": true} {
		if got := split(key); got != want {
			t.Errorf("%s is split: %v, want %v", key, got, want)
		}
	}
}

func TestEverySlotHasATag(t *testing.T) {
	for slot, tag := range tags() {
		if rediscmd.SlotOf("fencelock_session:{"+tag+"}:x") != slot {
			t.Fatalf("the tag %q of slot %d is in another", tag, slot)
		}
	}
}

func TestHolderIDs(t *testing.T) {
	id := driver.NewSessionID()
	if got, ok := parseHolder(holderOf(id, 7)); !ok || got != (driver.ClaimID{Session: id, Seq: 7}) {
		t.Errorf("%s was read as %v", holderOf(id, 7), got)
	}
	for _, foreign := range []string{"", "x", "x:1", uuid(id) + ":-3", uuid(id) + ":1:transaction", uuid(id), uuid(id) + "00:1"} {
		if got, ok := parseHolder(foreign); ok {
			t.Errorf("%q was read as %v", foreign, got)
		}
	}
}
