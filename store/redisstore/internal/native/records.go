// SPDX-License-Identifier: Apache-2.0

package native

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// encoded is a record as JSON, with how long its holder may linger.
type encoded struct {
	record *driver.Record
	linger time.Duration
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
func (r *records) find(t *driver.Terms) *encoded {
	for _, e := range r.last {
		if e != nil && e.record == t.Record && e.linger == t.Linger {
			return e
		}
	}
	return nil
}

func (r *records) keep(e *encoded) {
	r.last[r.next] = e
	r.next = (r.next + 1) % len(r.last)
}

// encode returns the record of terms as JSON.
func (r *records) encode(t *driver.Terms) (*encoded, error) {
	r.mu.Lock()
	e := r.find(t)
	r.mu.Unlock()
	if e != nil {
		return e, nil
	}
	text, err := json.Marshal(rediscmd.Shown{Record: t.Record, Linger: t.Linger.Milliseconds()})
	if err != nil {
		return nil, fmt.Errorf("redisstore: record: %w", err)
	}
	e = &encoded{t.Record, t.Linger, string(text)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(e)
	return e, nil
}
