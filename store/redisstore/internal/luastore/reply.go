// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// reader takes the values of a reply one after the other.
type reader struct{ rest []any }

func (r *reader) next() any {
	if len(r.rest) == 0 {
		r.rest = nil
		return nil
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	if r.rest == nil {
		r.rest = []any{}
	}
	return v
}

// err returns an error if the reply was too short.
func (r *reader) err() error {
	if r.rest == nil {
		return errShort
	}
	return nil
}

func (r *reader) text() string { s, _ := r.next().(string); return s }

func (r *reader) list() []any { l, _ := r.next().([]any); return l }

func (r *reader) number() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func (r *reader) millis() time.Duration { return time.Duration(r.number()) * time.Millisecond }

// clock is the server's, from microseconds.
func (r *reader) clock() time.Time { return time.UnixMicro(r.number()) }

// token makes a token of the store's counter.
func (r *reader) token() driver.Token { return driver.Token(r.number() * driver.TokenStep) }

func (r *reader) session() (id driver.SessionID) { copy(id[:], r.text()); return id }

func (r *reader) record() driver.Record { return record(r.text()) }

func record(text string) (rec driver.Record) {
	_ = json.Unmarshal([]byte(text), &rec) // another version's record is shown as far as we know it
	return rec
}

// holder reads what the function shown of lib.lua wrote.
func holder(v any) driver.Holder {
	list, _ := v.([]any)
	r := reader{list}
	h := driver.Holder{Claim: driver.ClaimID{Session: r.session(), Seq: uint64(r.number())}}
	h.Kept = h.Claim.Session == driver.SessionID{}
	h.Token, h.Mode, h.Weight, h.Reentry = r.token(), driver.Mode(r.number()), r.number(), r.text()
	h.Record, h.Age, h.EndsIn = r.record(), r.millis(), r.millis()
	return h
}

// expand reads a plain grant in its short form.
func expand(h *driver.Holder, raw string) {
	if len(raw) < 50 {
		return
	}
	copy(h.Claim.Session[:], raw[14:30])
	h.Token, h.Claim.Seq, h.Weight = driver.Token(numberOf(raw[1:8])*driver.TokenStep), uint64(numberOf(raw[30:36])), 1
	h.Record = record(raw[50:])
}

func waiter(v any) driver.Waiter {
	list, _ := v.([]any)
	r := reader{list}
	w := driver.Waiter{Claim: driver.ClaimID{Session: r.session(), Seq: uint64(r.number())}}
	w.Mode, w.Weight, w.Record, w.Age = driver.Mode(r.number()), r.number(), r.record(), r.millis()
	return w
}

// broken reads the list of broken claims, an array of numbers in MessagePack.
func (r *reader) broken() (seqs []uint64) {
	raw := []byte(r.text())
	if len(raw) == 0 {
		return nil
	}
	return unpackNumbers(raw)
}
