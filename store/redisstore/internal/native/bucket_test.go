// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"
	"strconv"
	"testing"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// TestBucketsAreSpreadEvenly: no master of a cluster has more than its share of the buckets,
// rounded up, whatever the namespace and the number of masters.
func TestBucketsAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"fencelock", "orders", "a", "billing:eu"} {
		for _, n := range []int{2, 32, 48} {
			b := &buckets{namespace: namespace}
			var at []int
			for i := range n {
				at = append(at, rediscmd.SlotOf(b.key(strconv.Itoa(i), n)))
			}
			for masters := 1; masters <= 64; masters++ {
				counts := make([]int, masters)
				for _, slot := range at {
					counts[slot*masters/rediscmd.Slots]++
				}
				if most, share := slices.Max(counts), (n+masters-1)/masters; most > share+1 || rediscmd.Slots%masters == 0 && n%masters == 0 && most > share {
					t.Errorf("%s: %d of %d buckets are on one of %d masters", namespace, most, n, masters)
				}
			}
		}
	}
}

// TestFirstBucketIsFoundByAll: a process with another number of buckets finds the marker.
func TestFirstBucketIsFoundByAll(t *testing.T) {
	b := &buckets{namespace: "orders"}
	for _, n := range []int{1, 2, 32} {
		if got := b.key(firstShard, n); got != "orders:{orders:0}" {
			t.Errorf("of %d buckets the first is %s", n, got)
		}
	}
	if one, other := b.key("7", 32), b.key("7", 16); one == other {
		t.Errorf("bucket 7 of 16 and of 32 is %s", one)
	}
	if again := (&buckets{namespace: "orders"}).key("7", 32); again != b.key("7", 32) {
		t.Errorf("bucket 7 of 32 is %s and then %s", b.key("7", 32), again)
	}
}

func BenchmarkBucketKey(b *testing.B) {
	for b.Loop() {
		(&buckets{namespace: "fencelock"}).key("7", 32)
	}
}
