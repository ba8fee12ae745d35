// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// companion is the name of a key or channel beside a lock, by Redisson's rule: a name with
// any { in it is taken for one with a hash tag.
func companion(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}

// channelOf is the channel on which the waiters of a lock listen, "" if nothing is published, and the
// message about it, "" if every message is.
func (s *Store) channelOf(key string) (channel, text string) {
	switch s.opts.Kind {
	case ReadWrite:
		return companion("redisson_rwlock", key), ""
	case Plain:
		return s.opts.Channel, key
	}
	return companion("redisson_lock__channel", key), ""
}

// split reports whether the companions of a key are in another slot than the key. Redisson
// itself fails on a cluster with such names: it can lock them, and not unlock.
func split(key string) bool { return rediscmd.SlotOf(key) != rediscmd.SlotOf(companion("", key)) }

// tags has a hash tag for each slot.
var tags = sync.OnceValue(func() *[rediscmd.Slots]string {
	var all [rediscmd.Slots]string
	for n, left := 0, rediscmd.Slots; left > 0; n++ {
		tag := strconv.FormatInt(int64(n), 36)
		if slot := rediscmd.SlotOf(tag); all[slot] == "" {
			all[slot] = tag
			left--
		}
	}
	return &all
})

// sessions begins the keys of the sessions of a shard.
func (s *Store) sessions(shard string) string {
	if !s.client.Sharded() {
		return "fencelock_session:"
	}
	slot, _ := strconv.Atoi(shard)
	return "fencelock_session:{" + tags()[slot%rediscmd.Slots] + "}:"
}

// sessionKeys are the keys of a session, as scripts expect them.
func (s *Store) sessionKeys(shard string, id driver.SessionID) []string {
	key := s.sessions(shard) + uuid(id)
	return []string{key, key + ":claims", key + ":tombstones"}
}

// uuid is a session's id in the form that Redisson's client ids have.
func uuid(id driver.SessionID) string {
	h := id.String()
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// holderOf is the field of a claim in the hash of its lock.
func holderOf(id driver.SessionID, seq uint64) string { return fmt.Sprintf("%s:%d", uuid(id), seq) }

// parseHolder reads a holder id, which may be Redisson's: "<uuid>:<thread>". Other forms occur,
// with a negative thread or a transaction; these are shown by their text only.
func parseHolder(field string) (id driver.ClaimID, ok bool) {
	client, number, _ := strings.Cut(field, ":")
	raw, err := hex.DecodeString(strings.ReplaceAll(client, "-", ""))
	seq, err2 := strconv.ParseUint(number, 10, 64)
	if err != nil || err2 != nil || len(raw) != len(id.Session) {
		return driver.ClaimID{}, false
	}
	copy(id.Session[:], raw)
	id.Seq = seq
	return id, true
}
