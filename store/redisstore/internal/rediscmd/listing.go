// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"slices"
	"sync"
	"time"
)

// Listings are the names that listings under way have not shown yet, so that a bucket is
// scanned once for a listing and not for each page. They are a cache: if nothing is kept for
// a cursor, because it is old or from another process, the bucket is scanned again.
//
// The cursor of SCAN would not do: it returns a key twice when the server's table shrinks during
// the scan, and a listing shows every lock once (I3).
type Listings struct {
	mu   sync.Mutex
	kept []*listing // the latest last
}

// listing is what is left of a listing.
type listing struct {
	prefix, cursor string
	names          []string
	end            *time.Timer
}

const (
	// maxListings is how many are kept.
	maxListings = 4
	// listingKept is how long one is kept: a caller that reads page after page comes back
	// long before.
	listingKept = time.Minute
)

// Put keeps the names that come after a cursor.
func (l *Listings) Put(prefix, cursor string, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == maxListings {
		l.kept[0].end.Stop()
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	one := &listing{prefix: prefix, cursor: cursor, names: names}
	one.end = time.AfterFunc(listingKept, func() { l.drop(one) })
	l.kept = append(l.kept, one)
}

// Take returns the names that come after a cursor, if they were kept, and keeps them no
// longer.
func (l *Listings) Take(prefix, cursor string) ([]string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, one := range l.kept {
		if one.prefix == prefix && one.cursor == cursor {
			one.end.Stop()
			l.kept = slices.Delete(l.kept, i, i+1)
			return one.names, true
		}
	}
	return nil, false
}

func (l *Listings) drop(one *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = slices.DeleteFunc(l.kept, func(o *listing) bool { return o == one })
}
