// SPDX-License-Identifier: Apache-2.0

package rediscmd

import "strings"

// Slots is how many hash slots a cluster has.
const Slots = 16384

// SlotOf returns the slot of a key: that of its hash tag, if it has one.
func SlotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	return int(CRC16(0, key)) % Slots
}

// crcs are the checksums of single bytes.
var crcs = func() (all [256]uint16) {
	for b := range all {
		crc := uint16(b) << 8
		for range 8 {
			top := crc & 0x8000
			crc <<= 1
			if top != 0 {
				crc ^= 0x1021
			}
		}
		all[b] = crc
	}
	return all
}()

// CRC16 continues the checksum from which a cluster computes the slot of a hash tag,
// CRC-16/XMODEM.
func CRC16[T string | []byte](crc uint16, text T) uint16 {
	for i := range len(text) {
		crc = crc<<8 ^ crcs[byte(crc>>8)^text[i]]
	}
	return crc
}
