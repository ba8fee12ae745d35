// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"encoding/json"
	"fmt"
	"sync"

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
	mu   sync.Mutex
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
func (r *records) encode(record *driver.Record) (*encoded, error) {
	r.mu.Lock()
	e := r.find(record)
	r.mu.Unlock()
	if e != nil {
		return e, nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("redisstore: record: %w", err)
	}
	e = &encoded{record, string(text)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(e)
	return e, nil
}
