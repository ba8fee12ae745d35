// SPDX-License-Identifier: Apache-2.0

package rediscmd

import "testing"

// TestMasterKeyHasTheSlotOfTheChannel: otherwise a connection of a cluster subscribes at a node that
// does not have the channel.
func TestMasterKeyHasTheSlotOfTheChannel(t *testing.T) {
	t.Parallel()
	for channel, want := range map[string]string{
		"locks{7}:x":                     "locks{7}",
		"redisson_lock__channel:a}b{c}d": "redisson_lock__channel:a}b{c}",
		"{b}{c}":                         "{b}",
		"a{}b":                           "a{}b",
		"a{b":                            "a{b",
		"a}b":                            "a}b",
	} {
		key, _ := MasterKey(channel)
		if key != want || SlotOf(key) != SlotOf(channel) {
			t.Errorf("the key of %s is %s, want %s", channel, key, want)
		}
	}
}
