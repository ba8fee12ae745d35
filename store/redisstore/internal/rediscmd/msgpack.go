// SPDX-License-Identifier: Apache-2.0

package rediscmd

import "encoding/binary"

// UnpackNumbers reads an array of unsigned numbers, the only MessagePack that
// leaves the scripts.
func UnpackNumbers(b []byte) (out []uint64) {
	if len(b) == 0 {
		return nil
	}
	n := 0
	switch {
	case b[0]&0xf0 == 0x90:
		n, b = int(b[0]&0x0f), b[1:]
	case b[0] == 0xdc && len(b) >= 3:
		n, b = int(binary.BigEndian.Uint16(b[1:])), b[3:]
	case b[0] == 0xdd && len(b) >= 5:
		n, b = int(binary.BigEndian.Uint32(b[1:])), b[5:]
	}
	sizes := map[byte]int{0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8}
	for ; n > 0 && len(b) > 0; n-- {
		size, wide := sizes[b[0]]
		if !wide {
			out, b = append(out, uint64(b[0])), b[1:]
			continue
		}
		if len(b) < 1+size {
			return out
		}
		var v uint64
		for _, d := range b[1 : 1+size] {
			v = v<<8 | uint64(d)
		}
		out, b = append(out, v), b[1+size:]
	}
	return out
}
