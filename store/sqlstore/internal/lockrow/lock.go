// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"encoding/json"
	"fmt"
)

// Lock is one name: who has it, who waits, and which claims must not be granted.
type Lock struct {
	// Counter is the token / TokenStep that was given out last.
	Counter int64
	// Limit is the stored limit, 0 if none.
	Limit int64
	// Reclaimed is the counter of the exclusive grant reclaimed last: an older
	// one must not come back after it.
	Reclaimed int64
	Grants    []Claim
	Queue     []Claim
	Marks     []Mark
}

// Row is a lock as its table has it. The holder's columns are set if the lock has one
// plain grant, which the fast statements deal with; otherwise Grants has them all.
type Row struct {
	Version, Counter, Limit, Reclaimed int64
	Holder                             string // empty for none
	Seq, Generation, Inc, Since        int64
	Record                             string
	Grants, Queue, Marks               string // JSON, empty for none
}

// Decode reads a row.
func Decode(r *Row) (*Lock, error) {
	l := &Lock{Counter: r.Counter, Limit: r.Limit, Reclaimed: r.Reclaimed}
	if r.Holder != "" {
		l.Grants = []Claim{{Session: r.Holder, Seq: uint64(r.Seq), Generation: r.Generation, Inc: r.Inc, Since: r.Since,
			Plain: 1, Counter: r.Counter, Record: r.Record}}
	}
	for _, list := range []struct {
		text string
		to   any
	}{{r.Grants, &l.Grants}, {r.Queue, &l.Queue}, {r.Marks, &l.Marks}} {
		if list.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(list.text), list.to); err != nil {
			return nil, fmt.Errorf("the row of the lock is damaged: %w", err)
		}
	}
	return l, nil
}

// Encode writes a row; the version is the caller's.
func (l *Lock) Encode() (*Row, error) {
	r := &Row{Counter: l.Counter, Limit: l.Limit, Reclaimed: l.Reclaimed}
	grants := l.Grants
	// The holder's columns do not include a counter: a plain grant whose token is not
	// the last one (a fence of Break came after it) is written in full.
	if len(grants) == 1 && grants[0].Plain == 1 && grants[0].Session != "" && grants[0].MinEnd == 0 &&
		grants[0].MaxEnd == 0 && grants[0].Counter == l.Counter {
		g := grants[0]
		r.Holder, r.Seq, r.Generation, r.Inc, r.Since, r.Record = g.Session, int64(g.Seq), g.Generation, g.Inc, g.Since, g.Record
		grants = nil
	}
	for _, list := range []struct {
		n    int
		from any
		text *string
	}{{len(grants), grants, &r.Grants}, {len(l.Queue), l.Queue, &r.Queue}, {len(l.Marks), l.Marks, &r.Marks}} {
		if list.n == 0 {
			continue
		}
		text, err := json.Marshal(list.from)
		if err != nil {
			return nil, err
		}
		*list.text = string(text)
	}
	return r, nil
}

// Sessions returns the ids of all sessions that the lock names.
func (l *Lock) Sessions() []string {
	seen := map[string]bool{"": true}
	var ids []string
	add := func(id string) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, c := range l.Grants {
		add(c.Session)
	}
	for _, c := range l.Queue {
		add(c.Session)
	}
	for _, m := range l.Marks {
		add(m.Session)
	}
	return ids
}
