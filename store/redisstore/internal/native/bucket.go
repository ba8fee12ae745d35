// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strconv"
	"sync"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

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
	first := int(rediscmd.CRC16(0, b.namespace+":"+firstShard)) % rediscmd.Slots
	want := (first + i*rediscmd.Slots/of) % rediscmd.Slots
	tag := shard + "."
	crc := rediscmd.CRC16(0, b.namespace+":"+tag)
	var digits []byte
	for n := int64(0); ; n++ {
		digits = strconv.AppendInt(digits[:0], n, 36)
		if int(rediscmd.CRC16(crc, digits))%rediscmd.Slots == want {
			key := b.named(tag + string(digits))
			b.found.Store(p, key)
			return key
		}
	}
}

func (b *buckets) named(bucket string) string {
	return b.namespace + ":{" + b.namespace + ":" + bucket + "}"
}
