// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// sessionItem is the value of a session item.
type sessionItem struct {
	// Generation is drawn each time the session begins.
	Generation string `json:"generation"`
	// TTL is in milliseconds.
	TTL int64 `json:"ttl"`
	// Tombstoned are the claims that must not be granted any more.
	Tombstoned []uint64 `json:"tombstoned,omitempty"`
}

// lockItem is the value of a lock item. Without a session the lock is free.
type lockItem struct {
	Name       string         `json:"name"`
	Session    string         `json:"session,omitempty"`
	Generation string         `json:"generation,omitempty"`
	Claim      uint64         `json:"claim,omitempty"`
	Since      int64          `json:"since,omitempty"` // ms since 1970, by the holder's clock
	Record     *driver.Record `json:"record,omitempty"`
}

// owner is one claim in one generation of its session.
type owner struct {
	session, generation string
	claim               uint64
}

func (l *lockItem) owner() owner { return owner{l.Session, l.Generation, l.Claim} }

func (l *lockItem) free() bool { return l.Session == "" }

func (l *sessionItem) tombstoned(claim uint64) bool { return slices.Contains(l.Tombstoned, claim) }

// holder shows a lock item whose session lives. memcached returns neither its time
// nor when an item ends, so Age is by the clocks of two processes and EndsIn the
// most it can be.
func (l *lockItem) holder(own *sessionItem, now time.Time) driver.Holder {
	h := driver.Holder{
		Claim:  driver.ClaimID{Seq: l.Claim},
		Weight: 1,
		Age:    max(0, now.Sub(time.UnixMilli(l.Since))),
		EndsIn: time.Duration(own.TTL) * time.Millisecond,
	}
	if l.Record != nil {
		h.Record = *l.Record
	}
	if raw, err := hex.DecodeString(l.Session); err == nil {
		copy(h.Claim.Session[:], raw)
	}
	return h
}

// keys are the keys of a namespace.
type keys struct{ namespace string }

// lock hashes the name, because a key may have 250 bytes and no spaces.
func (k keys) lock(name string) string {
	sum := sha256.Sum256([]byte(name))
	return k.namespace + ":l:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func (k keys) session(id string) string { return k.namespace + ":s:" + id }

// seconds is the time to live for memcached so that an item lives for at least ttl. Its
// clock ticks once a second, and an item ends with the tick that reaches its time:
// asked for 1 s, just before a tick, it would be gone in no time.
func seconds(ttl time.Duration) int32 {
	return int32((ttl+time.Second-1)/time.Second) + 1
}

// encode cannot fail for the types of this file.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
