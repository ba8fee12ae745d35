// SPDX-License-Identifier: Apache-2.0

package rediscmd

import "testing"

func TestSlot(t *testing.T) {
	if got := CRC16(0, "123456789"); got != 0x31c3 {
		t.Errorf("CRC-16 of 123456789 is %#x, want 0x31c3", got)
	}
	if got := CRC16(CRC16(0, "1234"), "56789"); got != 0x31c3 {
		t.Errorf("continued it is %#x", got)
	}
	for key, tag := range map[string]string{"a{b}c": "b", "{b}{c}": "b", "a{}b": "a{}b", "a{b": "a{b", "a}b{c}": "c"} {
		if got, want := SlotOf(key), int(CRC16(0, tag))%Slots; got != want {
			t.Errorf("the slot of %s is %d, want %d", key, got, want)
		}
	}
}
