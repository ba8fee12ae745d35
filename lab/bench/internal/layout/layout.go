// SPDX-License-Identifier: Apache-2.0

// Package layout writes millions of held locks, and thousands of readers of one lock, as
// redisstore keeps them (docs/redis-layout.md, version 2), in seconds. Through the store
// that takes minutes, and the memory of the clients that hold them.
//
//	Owner ── Open through the store ──▶ sessions
//	  ╰──── Hold, Share: raw commands ─▶ grants of these sessions, as the store would write them
//	  ╰──── Inspect through the store ─▶ are they held?
//
// Only this package knows the layout: another layout changes this file. A fill that the store
// does not understand is an error, not a wrong figure.
package layout

import (
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
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

// sessionsOf reads sessions that the store has opened on a shard.
func sessionsOf(ctx context.Context, client redis.UniversalClient, bucket string, ids []driver.SessionID) ([]session, error) {
	fields := []string{"m"}
	for _, id := range ids {
		fields = append(fields, "s"+string(id[:]))
	}
	values, err := client.HMGet(ctx, bucket, fields...).Result()
	if err != nil {
		return nil, err
	}
	marker, _ := values[0].(string)
	all := make([]session, 0, len(ids))
	for i, id := range ids {
		s, _ := values[i+1].(string)
		if len(marker) < 7 || len(s) < 13 {
			return nil, fmt.Errorf("layout: bucket %s has no session %s", bucket, id)
		}
		all = append(all, session{id, []byte(s[6:13]), []byte(marker[:7])})
	}
	return all, nil
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

// number reads what appendUint writes.
func number(b []byte) uint64 {
	var all [8]byte
	copy(all[8-len(b):], b)
	return binary.BigEndian.Uint64(all[:])
}

// shareAtOnce is how many grants one command writes: the server answers others in between.
const shareAtOnce = 200

// share writes the shared grants of one lock, one for each session.
func share(ctx context.Context, client redis.UniversalClient, bucket, name string, sessions []session, counter uint64) error {
	sentinel := appendArray([]byte{'S'}, 5)
	for _, v := range []int{len(sessions), len(sessions), 1} { // count, sum of weights, largest weight
		sentinel = appendNumber(sentinel, uint64(v))
	}
	last := counter + uint64(len(sessions)) - 1
	sentinel = appendString(appendString(sentinel, strconv.FormatUint(last, 10)), "0")
	if err := client.RPush(ctx, bucket+":l:"+name, "0", sentinel).Err(); err != nil {
		return err
	}
	for len(sessions) > 0 {
		part := sessions[:min(shareAtOnce, len(sessions))]
		sessions = sessions[len(part):]
		var pairs []any
		for _, s := range part {
			pairs = append(pairs, appendUint(s.id[:len(s.id):len(s.id)], 1, 6), shared(s, name, counter))
			counter++
		}
		if err := client.HSet(ctx, bucket+":g:"+name, pairs...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// shared is a shared grant.
func shared(s session, name string, counter uint64) []byte {
	b := appendArray(nil, 16)
	b = appendString(b, string(s.id[:]))
	for _, v := range []uint64{1, 1, 1, 0} { // number of the claim, shared, weight, limit
		b = appendNumber(b, v)
	}
	b = appendString(appendString(b, ""), record)
	since := uint64(time.Now().UnixMilli())
	for _, v := range []uint64{0, 0, since, counter, 0, 0, number(s.generation), number(s.incarnation)} {
		b = appendNumber(b, v)
	}
	return appendString(b, name)
}
