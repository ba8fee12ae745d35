// SPDX-License-Identifier: Apache-2.0

package fill

import "strings"

// Slots is how many hash slots a cluster has.
const Slots = 16384

// slotOf is the hash slot of a key: that of the part in braces, if there is one.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % Slots
}

// crc16 is the checksum that Redis uses, CRC-16/XMODEM.
func crc16(s string) uint16 {
	crc := uint16(0)
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			top := crc & 0x8000
			crc <<= 1
			if top != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// Slot is the hash slot of a cluster in which a shard of so many is.
func Slot(shard string, of int) int { return slotOf(bucket(shard, of)) }

// Masters returns how many of the names each of n masters has, if each master has as
// many slots and shard returns the shard of a name, of so many.
func Masters(n int, names []string, shard func(name string) string, of int) []float64 {
	on := map[string]int{} // master of a shard
	counts := make([]float64, n)
	for _, name := range names {
		s := shard(name)
		master, ok := on[s]
		if !ok {
			master = Slot(s, of) * n / Slots
			on[s] = master
		}
		counts[master]++
	}
	return counts
}
