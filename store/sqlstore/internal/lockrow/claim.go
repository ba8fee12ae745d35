// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Claim is one claim as the lock's row has it, granted or queued. The names of its
// fields are part of the schema: statements read s, n, g, i, x and r.
type Claim struct {
	// Session is its id in hexadecimal digits; empty if the lock is only kept.
	Session string `json:"s"`
	Seq     uint64 `json:"n"`
	// Generation differs between two sessions with the same id.
	Generation int64 `json:"g"`
	// Inc is the incarnation in which it was granted, queued or confirmed.
	Inc int64 `json:"i"`
	// Since is when it was granted or queued.
	Since int64 `json:"t"`
	// Plain is 1 for an exclusive claim with nothing special about it.
	Plain   int    `json:"x,omitempty"`
	Shared  bool   `json:"shared,omitempty"`
	Weight  int64  `json:"weight,omitempty"`
	Limit   int64  `json:"limit,omitempty"`
	Reentry string `json:"reentry,omitempty"`
	MinHold int64  `json:"minhold,omitempty"`
	MaxHold int64  `json:"maxhold,omitempty"`
	// Counter is the token / TokenStep of a grant.
	Counter int64 `json:"c,omitempty"`
	// MinEnd: not free before, whatever happens. MaxEnd: over then, whatever
	// happens; 0 for never.
	MinEnd int64 `json:"minend,omitempty"`
	MaxEnd int64 `json:"maxend,omitempty"`
	// Keep is for how long a kept grant was to be kept when it was withdrawn.
	Keep int64 `json:"keep,omitempty"`
	// Record is the driver.Record in JSON, as a text: a column of JSON would
	// rewrite it. That of a watched claim begins with WatchKey.
	Record string `json:"r"`
}

// NewClaim returns the claim c of a session, not granted yet.
func NewClaim(session string, generation int64, c *driver.Claim) (Claim, error) {
	rec, err := json.Marshal(c.Terms.Record)
	if err != nil {
		return Claim{}, fmt.Errorf("record: %w", err)
	}
	n := Claim{Session: session, Seq: c.Seq, Generation: generation, Record: string(rec)}
	if c.Watch {
		n.Record = withWatch(n.Record, c.Terms.Linger)
	}
	n.setTerms(c.Terms)
	return n, nil
}

func (c *Claim) setTerms(t *driver.Terms) {
	c.Shared, c.Limit, c.Reentry = t.Mode == driver.Shared, t.Limit, t.Reentry
	c.Weight = t.Weight
	if c.Weight == 1 {
		c.Weight = 0
	}
	c.MinHold, c.MaxHold = t.MinHold.Microseconds(), t.MaxHold.Microseconds()
	c.Plain = 0
	if t.Plain() {
		c.Plain = 1
	}
}

// Token returns the token of a grant.
func (c *Claim) Token() driver.Token { return driver.Token(c.Counter * driver.TokenStep) }

func (c *Claim) weight() int64 { return max(1, c.Weight) }

// terms returns as much of the claim's terms as the admission rule reads.
func (c *Claim) terms() *driver.Terms {
	return &driver.Terms{Mode: c.mode(), Weight: c.weight(), Limit: c.Limit, Reentry: c.Reentry}
}

func (c *Claim) mode() driver.Mode {
	if c.Shared {
		return driver.Shared
	}
	return driver.Exclusive
}

func (c *Claim) record() (r driver.Record) {
	_ = json.Unmarshal([]byte(c.Record), &r) // it was made by NewClaim
	return r
}

func (c *Claim) is(session string, seq uint64) bool { return c.Session == session && c.Seq == seq }

func (c *Claim) id() driver.ClaimID {
	id := driver.ClaimID{Seq: c.Seq}
	// A kept claim has none, and a row that something else wrote may have any text.
	if len(c.Session) == hex.EncodedLen(len(id.Session)) {
		_, _ = hex.Decode(id.Session[:], []byte(c.Session))
	}
	return id
}

// Mark is what a lock keeps of a claim that is gone.
type Mark struct {
	Session    string `json:"s"`
	Seq        uint64 `json:"n"`
	Generation int64  `json:"g"`
	// Kind is one of the constants below.
	Kind string `json:"k"`
}

const (
	// Tombstoned: withdrawn, and never to be granted.
	Tombstoned = "tombstoned"
	// Spent: its grant ended by itself; never to be granted, until withdrawn.
	Spent = "spent"
	// Broken: the same by an operator.
	Broken = "broken"
	// Withdrawn: broken and withdrawn. A withdrawal that is sent twice must find the
	// claim broken twice.
	Withdrawn = "withdrawn"
)

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
