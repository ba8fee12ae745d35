// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

// contenders are the claims of a lock in the order of their keys, which were read by creation. Keys of locks whose
// names continue this one are left out.
func contenders(under string, kvs []*mvccpb.KeyValue) (all []entry) {
	for _, kv := range kvs {
		if !strings.Contains(strings.TrimPrefix(string(kv.Key), under), "/") {
			all = append(all, read(kv))
		}
	}
	return all
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
