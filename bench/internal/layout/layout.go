// SPDX-License-Identifier: Apache-2.0

// Package layout writes millions of held locks, and thousands of readers of one lock, as
// redisstore keeps them (docs/redis-layout.md, version 1), in seconds. Through the store
// that takes minutes, and the memory of the clients that hold them.
//
//	Owner ── Open through the store ──▶ sessions
//	  ╰──── Hold, Share: raw commands ─▶ grants of these sessions, as the store would write them
//	  ╰──── Inspect through the store ─▶ are they held?
//
// Only this package knows the layout: another layout changes this file. A fill that the store does not understand is an error, not a wrong figure.
package layout

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/driver"
)

// namespace is the default of redisstore.
const namespace = "fencelock"

// bucket is the key of a shard.
func bucket(shard string) string { return namespace + ":{" + namespace + ":" + shard + "}" }

// Slot is the hash slot of a cluster in which a shard is.
func Slot(shard string) int { return slotOf(bucket(shard)) }

// record is who holds the locks.
const record = `{"owner":"web-17:4242"}`

// Size is how many entries there are for locks, sessions and all else. The store must have
// one shard.
func Size(ctx context.Context, client redis.UniversalClient, store driver.Store) (int, error) {
	n, err := client.HLen(ctx, bucket(store.Shard(""))).Result()
	return int(n), err
}

// session is what grants repeat of their session, as bytes of the layout.
type session struct {
	id          driver.SessionID
	generation  []byte
	incarnation []byte
}

// sessionsOf reads sessions that the store has opened on a shard.
func sessionsOf(ctx context.Context, client redis.UniversalClient, shard string, ids []driver.SessionID) ([]session, error) {
	fields := []string{"m"}
	for _, id := range ids {
		fields = append(fields, "s"+string(id[:]))
	}
	values, err := client.HMGet(ctx, bucket(shard), fields...).Result()
	if err != nil {
		return nil, err
	}
	marker, _ := values[0].(string)
	all := make([]session, 0, len(ids))
	for i, id := range ids {
		s, _ := values[i+1].(string)
		if len(marker) < 7 || len(s) < 13 {
			return nil, fmt.Errorf("layout: shard %s has no session %s", shard, id)
		}
		all = append(all, session{id, []byte(s[6:13]), []byte(marker[:7])})
	}
	return all, nil
}

// counters draws n counters of tokens and returns the first.
func counters(ctx context.Context, client redis.UniversalClient, shard string, n int) (uint64, error) {
	last, err := client.HIncrBy(ctx, bucket(shard), "c", int64(n)).Result()
	return uint64(last) - uint64(n) + 1, err
}

// holdAtOnce is how many locks one command writes: the server answers others in between.
const holdAtOnce = 200

// hold returns commands that write exclusive grants of names, one for each counter.
func hold(ctx context.Context, p redis.Pipeliner, shard string, s session, seq, counter uint64, names []string) {
	pairs := make([]any, 0, 2*holdAtOnce)
	for i, name := range names {
		pairs = append(pairs, "l"+name, grant(s, seq+uint64(i), counter+uint64(i)))
		if len(pairs) == 2*holdAtOnce || i == len(names)-1 {
			p.HSet(ctx, bucket(shard), pairs...)
			pairs = make([]any, 0, 2*holdAtOnce)
		}
	}
}

// grant is the short form of an exclusive grant for which no claim waits.
func grant(s session, seq, counter uint64) []byte {
	b := make([]byte, 0, 50+len(record))
	b = append(b, 'X')
	b = appendUint(b, counter, 7)
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

// share writes the shared grants of one lock, one for each session.
func share(ctx context.Context, client redis.UniversalClient, shard, name string, sessions []session, counter uint64) error {
	grants := appendArray(nil, len(sessions))
	for i, s := range sessions {
		grants = appendArray(grants, 16)
		grants = appendString(grants, string(s.id[:]))
		for _, v := range []uint64{1, 1, 1, 0} { // number of the claim, shared, weight, limit
			grants = appendNumber(grants, v)
		}
		grants = appendString(appendString(grants, ""), record)
		since := uint64(time.Now().UnixMilli())
		for _, v := range []uint64{0, 0, since, counter + uint64(i), 0, 0, number(s.generation), number(s.incarnation)} {
			grants = appendNumber(grants, v)
		}
		grants = appendString(grants, name)
	}
	return client.HSet(ctx, bucket(shard), "l"+name, grants).Err()
}
