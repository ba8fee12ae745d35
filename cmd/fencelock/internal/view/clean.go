// SPDX-License-Identifier: Apache-2.0

package view

import (
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/plain"
)

// Clean is a lock with everything cleaned.
func Clean(st fencelock.Status) fencelock.Status {
	st.Name = plain.Clean(st.Name)
	holders, waiters := st.Holders, st.Waiters
	st.Holders, st.Waiters = nil, nil
	for _, h := range holders {
		h.Record = cleanRecord(h.Record)
		st.Holders = append(st.Holders, h)
	}
	for _, w := range waiters {
		w.Record = cleanRecord(w.Record)
		st.Waiters = append(st.Waiters, w)
	}
	return st
}

func cleanRecord(r fencelock.Record) fencelock.Record {
	r.Owner, r.Reason, r.Trace = plain.Clean(r.Owner), plain.Clean(r.Reason), plain.Clean(r.Trace)
	labels := r.Labels
	r.Labels = nil
	for key, value := range labels {
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[plain.Clean(key)] = plain.Clean(value)
	}
	return r
}

// CleanAll cleans a listing.
func CleanAll(locks []fencelock.Status) []fencelock.Status {
	for i := range locks {
		locks[i] = Clean(locks[i])
	}
	return locks
}
