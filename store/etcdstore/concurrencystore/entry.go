// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// value is what the key of a claim of ours has. The others do not read it.
type value struct {
	Session string        `json:"session"`
	Seq     uint64        `json:"seq"`
	Since   int64         `json:"since"` // of its first attempt, in Unix milliseconds, for people
	Record  driver.Record `json:"record"`
}

// entry is a claim as its key shows it.
type entry struct {
	key            string
	created, lease int64
	slot           int // of a claim of the session that reads it
	ours           bool
	id             driver.ClaimID
	since          time.Time
	record         driver.Record
}

// read reads the key of a claim, which may be of another library.
func read(kv *mvccpb.KeyValue) entry {
	e := entry{key: string(kv.Key), created: kv.CreateRevision, lease: kv.Lease}
	var v value
	bad := json.Unmarshal(kv.Value, &v)
	if id, err := hex.DecodeString(v.Session); bad == nil && err == nil && len(id) == len(e.id.Session) {
		e.ours, e.id, e.record, e.since = true, driver.ClaimID{Session: driver.SessionID(id), Seq: v.Seq}, v.Record, time.UnixMilli(v.Since)
		return e
	}
	binary.BigEndian.PutUint64(e.id.Session[:8], uint64(kv.Lease))
	e.record = driver.Record{Owner: fmt.Sprintf("lease %x", kv.Lease)}
	const shown = 100
	if len(kv.Value) > 0 {
		e.record.Reason = strings.ToValidUTF8(string(kv.Value[:min(len(kv.Value), shown)]), "?")
	}
	return e
}

// find returns the claim among entries, or nil.
func find(all []entry, id driver.ClaimID) *entry {
	for i := range all {
		if all[i].ours && all[i].id == id {
			return &all[i]
		}
	}
	return nil
}

// slotOf returns the slot of a key of the session whose first key for the lock is base.
func slotOf(key, base string) (slot int, ok bool) {
	rest, ok := strings.CutPrefix(key, base)
	if !ok || rest == "" {
		return 0, ok
	}
	number, ok := strings.CutPrefix(rest, ".")
	slot, err := strconv.Atoi(number)
	return slot, ok && err == nil && slot > 0
}

// freeSlot returns the lowest slot that is not used.
func freeSlot(used []int) (slot int) {
	for slices.Contains(used, slot) {
		slot++
	}
	return slot
}

// token is that of a claim which holds the lock.
func (e *entry) token() driver.Token { return lock.Token(e.created, 0) }

func (e *entry) age(now time.Time) time.Duration {
	if !e.ours {
		return 0 // the format has no time
	}
	return max(0, now.Sub(e.since))
}

func (e *entry) holder(now time.Time) driver.Holder {
	return driver.Holder{Claim: e.id, Token: e.token(), Weight: 1, Record: e.record, Age: e.age(now)}
}
