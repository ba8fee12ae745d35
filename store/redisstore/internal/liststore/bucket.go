// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"strconv"
	"sync"
)

// slots is how many hash slots a cluster has.
const slots = 16384

// buckets are the keys of the buckets of a namespace. All keys of a bucket begin with it, and
// have the hash tag in it, so they are in one slot.
type buckets struct {
	namespace string
	found     sync.Map // keys, by place
}

type place struct {
	shard string
	of    int
}

// key is the key of a shard of so many. The first bucket is in the slot of its name, whatever
// the number of buckets: a process that has another number must find its marker there.
// The names of the others end with the first number, in base 36, that puts them in the slot
// at their share of the way around all slots from the first. A cluster of any size then has
// on each master about its share of the buckets; by chance one of 32 masters had three.
func (b *buckets) key(shard string, of int) string {
	if of == 1 || shard == firstShard {
		return b.named(shard)
	}
	p := place{shard, of}
	if key, ok := b.found.Load(p); ok {
		return key.(string)
	}
	i, _ := strconv.Atoi(shard)
	first := int(crc16(0, b.namespace+":"+firstShard)) % slots
	want := (first + i*slots/of) % slots
	tag := shard + "."
	crc := crc16(0, b.namespace+":"+tag)
	var digits []byte
	for n := int64(0); ; n++ {
		digits = strconv.AppendInt(digits[:0], n, 36)
		if int(crc16(crc, digits))%slots == want {
			key := b.named(tag + string(digits))
			b.found.Store(p, key)
			return key
		}
	}
}

func (b *buckets) named(bucket string) string {
	return b.namespace + ":{" + b.namespace + ":" + bucket + "}"
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

// crc16 continues the checksum from which a cluster computes the slot of a hash tag,
// CRC-16/XMODEM.
func crc16[T string | []byte](crc uint16, text T) uint16 {
	for i := range len(text) {
		crc = crc<<8 ^ crcs[byte(crc>>8)^text[i]]
	}
	return crc
}
