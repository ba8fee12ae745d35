// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestListScansOnce: a listing goes once over the locks, however many pages it has,
// and a page can be asked of a process that has not seen the one before.
func TestListScansOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lib := libraries[0]
	store, other := lib.open(t, login{Addr: server.Addr}, nil), lib.open(t, login{Addr: server.Addr}, nil)
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard(""), ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	const locks, pageSize, at = 3000, 50, 1000 // at: how many a SCAN shows
	var all sync.WaitGroup
	for g := range 30 {
		all.Go(func() {
			for i := g; i < locks; i += 30 {
				terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
				if _, err := s.Attempt(t.Context(), &driver.Claim{Seq: uint64(i), Name: fmt.Sprint("lock ", i), Terms: terms}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	list := func(page func(n int) driver.Store) (scans int) {
		before := scanCalls(t, server)
		seen, q := map[string]int{}, driver.ListQuery{Prefix: "lock ", Max: pageSize}
		for n := 0; n == 0 || q.Cursor != ""; n++ {
			p, err := page(n).List(t.Context(), q)
			must.OK(t, err)
			for _, st := range p.Locks {
				seen[st.Name]++
			}
			q.Cursor = p.Next
		}
		for name, times := range seen {
			if times != 1 {
				t.Errorf("%s is listed %d times", name, times)
			}
		}
		if len(seen) != locks {
			t.Errorf("%d locks are listed, want %d", len(seen), locks)
		}
		return scanCalls(t, server) - before
	}
	if n := list(func(int) driver.Store { return store }); n == 0 || n > 3*locks/at {
		t.Errorf("%d locks in pages of %d took %d calls of SCAN", locks, pageSize, n)
	}
	list(func(n int) driver.Store { return []driver.Store{store, other}[n%2] })
}

var scanned = regexp.MustCompile(`cmdstat_scan:calls=(\d+)`)

// scanCalls is how often the server has done SCAN.
func scanCalls(t *testing.T, server *redistest.Server) int {
	t.Helper()
	text, err := server.Do("INFO", "commandstats").Text()
	m := scanned.FindStringSubmatch(text)
	if err != nil || m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
