// SPDX-License-Identifier: Apache-2.0

// Package fill writes millions of held locks as redisstore keeps them (docs/redis-layout.md, version 2), in seconds. Through the
// store that takes minutes, and the memory of the clients that hold them. Thousands of readers of one lock go through the store.
//
//	Owner ── Open through the store ──▶ sessions
//	  ╰──── Hold: raw commands ───────▶ grants of these sessions, as the store would write them
//	  ╰──── Inspect through the store ─▶ are they held?
//
// Only this package knows the layout: another layout changes this file. A fill that the store
// does not understand is an error, not a wrong figure.
package fill

import (
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/driver"
)

// namespace is the default of redisstore.
const namespace = "fencelock"

// bucket is the key of a shard of so many.
func bucket(shard string, of int) string {
	tag := namespace + ":" + shard
	if i, _ := strconv.Atoi(shard); of > 1 && i > 0 {
		want := (int(crc16(namespace+":0")) + i*Slots/of) % Slots
		tag += "."
		for n := int64(0); ; n++ {
			if named := tag + strconv.FormatInt(n, 36); int(crc16(named))%Slots == want {
				tag = named
				break
			}
		}
	}
	return namespace + ":{" + tag + "}"
}

var settings = regexp.MustCompile(`v2 buckets=(\d+)`)

// buckets reads of how many a namespace has shards.
func buckets(ctx context.Context, client redis.UniversalClient) (int, error) {
	marker, err := client.HGet(ctx, bucket("0", 1), "m").Result()
	if err != nil {
		return 0, err
	}
	m := settings.FindStringSubmatch(marker)
	if m == nil {
		return 0, fmt.Errorf("layout: the marker %q has no settings of version 2", marker)
	}
	return strconv.Atoi(m[1])
}

// record is who holds the locks.
const record = `{"owner":"web-17:4242"}`

// Size is how many entries there are for locks, sessions and all else. The store must have
// one shard, and the server nothing else.
func Size(ctx context.Context, client redis.UniversalClient, store driver.Store) (int, error) {
	fields, err := client.HLen(ctx, bucket(store.Shard(""), 1)).Result()
	if err != nil {
		return 0, err
	}
	keys, err := client.DBSize(ctx).Result()
	return int(fields + keys), err
}

// session is what grants repeat of their session, as bytes of the layout.
type session struct {
	id          driver.SessionID
	generation  []byte
	incarnation []byte
}

// sessionOf reads a session that the store has opened on a shard.
func sessionOf(ctx context.Context, client redis.UniversalClient, bucket string, id driver.SessionID) (session, error) {
	values, err := client.HMGet(ctx, bucket, "m", "s"+string(id[:])).Result()
	if err != nil {
		return session{}, err
	}
	marker, _ := values[0].(string)
	s, _ := values[1].(string)
	if len(marker) < 7 || len(s) < 13 {
		return session{}, fmt.Errorf("layout: bucket %s has no session %s", bucket, id)
	}
	return session{id, []byte(s[6:13]), []byte(marker[:7])}, nil
}

// counters draws n numbers and returns the first. The tickets that are ready go: they are lower.
func counters(ctx context.Context, client redis.UniversalClient, bucket string, n int) (uint64, error) {
	var last *redis.IntCmd
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		last = p.HIncrBy(ctx, bucket, "v", int64(n))
		return p.Del(ctx, bucket+":t").Err()
	})
	return uint64(last.Val()) - uint64(n) + 1, err
}

// hold returns commands that write exclusive grants of names, one for each counter.
func hold(ctx context.Context, p redis.Pipeliner, bucket string, s session, seq, counter uint64, names []string) {
	for i, name := range names {
		n := uint64(i)
		p.RPush(ctx, bucket+":l:"+name, counter+n, grant(s, seq+n))
	}
}

// grant is the short form of an exclusive grant.
func grant(s session, seq uint64) []byte {
	b := make([]byte, 0, 43+len(record))
	b = append(b, 'X')
	b = appendUint(b, uint64(time.Now().UnixMilli()), 6)
	b = append(b, s.id[:]...)
	b = appendUint(b, seq, 6)
	b = append(append(b, s.generation...), s.incarnation...)
	return append(b, record...)
}

// appendUint appends the last bytes of a number.
func appendUint(b []byte, v uint64, bytes int) []byte {
	return append(b, binary.BigEndian.AppendUint64(nil, v)[8-bytes:]...)
}

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
