// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// FuzzEntries: keys and values of a lock that were edited by hand are errors or are used
// without a panic. Each line is a key and a value.
func FuzzEntries(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		s := inSpace("n")
		snap := &lock.Snapshot{Rev: 10}
		for pair := range strings.SplitSeq(text, "\n") {
			key, value, _ := strings.Cut(pair, " ")
			e, end, err := s.entry(&mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: 3, ModRevision: 4, Lease: 5})
			if err != nil {
				continue
			}
			e.Value.Age(time.Now())
			p, err := s.keys.Parse(key)
			if err != nil {
				t.Fatalf("%q is an entry and not a key: %v", key, err)
			}
			if p.Queued {
				snap.Queue = append(snap.Queue, e)
				snap.Count++
			} else {
				snap.AddHeld(e, end)
			}
		}
		snap.Plan()
		for _, g := range snap.Valid() {
			g.Keys()
			g.Entry().Token()
		}
	})
}
