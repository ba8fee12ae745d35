// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"encoding/json"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Value is the value of a claim's key, as JSON that people can read.
type Value struct {
	Seq     uint64        `json:"seq"`            // the claim's number in its session
	Mode    string        `json:"mode,omitempty"` // "" is exclusive
	Weight  int64         `json:"weight"`
	Limit   int64         `json:"limit,omitempty"`
	Reentry string        `json:"reentry,omitempty"`
	MinHold time.Duration `json:"min_hold_ns,omitempty"`
	MaxHold time.Duration `json:"max_hold_ns,omitempty"`
	Linger  time.Duration `json:"linger_ns,omitempty"`
	Record  driver.Record `json:"record"`
	// TTL is how long at most, in seconds, the key outlives its last renewal.
	TTL int64 `json:"ttl"`
	// Since is when it was granted or queued, in Unix milliseconds by the
	// clock of the writer: etcd has no clock that a transaction can read. It
	// is for people only.
	Since int64 `json:"since"`
	// Index numbers the grants of one revision.
	Index int `json:"index,omitempty"`
	// Token is set where it does not follow from the key's create revision: a
	// claim that joined another's grant, and a lock that is only kept.
	Token driver.Token `json:"token,omitempty"`
}

const sharedMode = "shared"

// NewValue returns what a claim asks for.
func NewValue(seq uint64, t *driver.Terms, ttl time.Duration, now time.Time) Value {
	v := Value{Seq: seq, Weight: t.Weight, Limit: t.Limit, Reentry: t.Reentry, MinHold: t.MinHold, MaxHold: t.MaxHold, Linger: t.Linger,
		Record: *t.Record, TTL: int64(ttl / time.Second), Since: now.UnixMilli()}
	if t.Mode == driver.Shared {
		v.Mode = sharedMode
	}
	return v
}

// Shared reports whether it tolerates other shared ones.
func (v *Value) Shared() bool { return v.Mode == sharedMode }

// DriverMode returns the mode in the words of the contract.
func (v *Value) DriverMode() driver.Mode {
	if v.Shared() {
		return driver.Shared
	}
	return driver.Exclusive
}

// terms returns as much of the claim's terms as the admission rule reads.
func (v *Value) terms() *driver.Terms {
	return &driver.Terms{Mode: v.DriverMode(), Weight: v.Weight, Limit: v.Limit, Reentry: v.Reentry}
}

// Downgrade makes it shared in place.
func (v *Value) Downgrade(t *driver.Terms) {
	v.Mode, v.Weight, v.Limit, v.Linger = sharedMode, t.Weight, t.Limit, t.Linger
}

// Encode returns the text of a value.
func (v *Value) Encode() []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("etcdstore: a value of plain fields has no JSON form: " + err.Error())
	}
	return b
}

// Age returns how long ago it was written, by the caller's clock.
func (v *Value) Age(now time.Time) time.Duration {
	return max(0, now.Sub(time.UnixMilli(v.Since)))
}

// Entry is one key with what etcd knows of it.
type Entry struct {
	ID     driver.ClaimID `json:"-"` // follows from the rest, as does Slot
	Slot   int            `json:"-"`
	Key    string         `json:"key"`
	Value  Value          `json:"value"`
	Create int64          `json:"create"` // revision; 0: not in the store yet
	Mod    int64          `json:"mod"`
	Lease  int64          `json:"lease"`
}

// slots is how many tokens one revision has room for: one for a break and one
// for each claim that the same transaction grants.
const slots = 64

// Token returns the token number index of a revision. It fits 63 bits for 2^49
// revisions: 1,700 years of 10,000 writes a second.
func Token(revision int64, index int) driver.Token {
	return driver.Token(revision*slots+int64(index)) * driver.TokenStep
}

// Token returns the token of a grant.
func (e *Entry) Token() driver.Token {
	if e.Value.Token != 0 {
		return e.Value.Token
	}
	return Token(e.Create, e.Value.Index)
}
