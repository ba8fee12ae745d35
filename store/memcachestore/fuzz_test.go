// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// FuzzItems: what another program wrote under a key is an error or is used without a panic.
func FuzzItems(f *testing.F) {
	f.Fuzz(func(t *testing.T, sessionText, lock string) {
		session, err1 := parse[sessionItem](&memcache.Item{Key: "s", Value: []byte(sessionText)})
		held, err2 := parse[lockItem](&memcache.Item{Key: "l", Value: []byte(lock)})
		if err1 != nil || err2 != nil {
			return
		}
		session.v.tombstoned(1)
		held.v.free()
		if h := held.v.holder(&session.v, time.Now()); h.Age < 0 {
			t.Errorf("held for %v", h.Age)
		}
	})
}

// FuzzStats: an answer to stats that is not one is an error.
func FuzzStats(f *testing.F) {
	f.Fuzz(func(t *testing.T, answer string) {
		stats, err := ask(io.Discard, bufio.NewReader(strings.NewReader(answer)), "stats")
		if err == nil {
			judge("h:1", stats, stats)
		}
	})
}
