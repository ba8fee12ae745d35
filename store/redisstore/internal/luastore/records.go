// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"encoding/json"
	"fmt"

	"github.com/fencelock/fencelock/driver"
)

// encoded is a record as JSON.
type encoded struct {
	record *driver.Record
	text   string
}

// records are those used last, as JSON. Most claims of a process have the same one, and
// those of a handle with options have the handle's; so few of them spare nearly all of
// the encoding. A process that traces has another one each time, for which nothing
// helps. Records are never changed, so a pointer stands for what it points to.
type records struct {
	last [8]*encoded
	next int // the one to replace
}

// find returns a record that was used lately, or nil.
func (r *records) find(record *driver.Record) *encoded {
	for _, e := range r.last {
		if e != nil && e.record == record {
			return e
		}
	}
	return nil
}

func (r *records) keep(e *encoded) {
	r.last[r.next] = e
	r.next = (r.next + 1) % len(r.last)
}

// encode returns a record as JSON.
func (f *batcher) encode(record *driver.Record) (*encoded, error) {
	f.mu.Lock()
	e := f.records.find(record)
	f.mu.Unlock()
	if e != nil {
		return e, nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("redisstore: record: %w", err)
	}
	e = &encoded{record, string(text)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records.keep(e)
	return e, nil
}

// packed are the records of one call, each of them once. In nearly every call there is
// one, or none, and index and more stay nil.
type packed struct {
	first string
	index []byte   // for each operation, 0 for the first record
	more  []string // 1 and after
}

// pack collects the records of a call. They are compared as texts: two claims in a row
// often say the same with two records.
func pack(batch []*operation) (p packed) {
	var first *encoded
	var numbers map[string]byte
	for i, o := range batch {
		switch {
		case o.record == nil || o.record == first:
			continue
		case first == nil:
			first = o.record
			p.first = first.text
			continue
		case o.record.text == p.first:
			continue
		}
		if p.index == nil {
			p.index, numbers = make([]byte, len(batch)), map[string]byte{}
		}
		n, ok := numbers[o.record.text]
		if !ok {
			p.more = append(p.more, o.record.text)
			n = byte(len(p.more)) // below maxBatch, which a byte can count to
			numbers[o.record.text] = n
		}
		p.index[i] = n
	}
	return p
}
