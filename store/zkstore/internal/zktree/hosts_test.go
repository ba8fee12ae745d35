// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-zookeeper/zk"
)

// TestServersAreTriedAsTheLibraryDoes: with addresses instead of names, the servers are tried
// in turn, with pauses, as by the provider of the library, whatever connects.
func TestServersAreTriedAsTheLibraryDoes(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for seed := range uint64(50) {
			var servers []string
			for i := range n {
				servers = append(servers, fmt.Sprintf("127.0.0.%d:2181", i+1))
			}
			ours, theirs := &hosts{}, zk.NewDNSHostProvider()
			for _, p := range []zk.HostProvider{ours, theirs} {
				if err := p.Init(servers); err != nil || p.Len() != n {
					t.Fatal(p.Len(), err)
				}
			}
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			same := map[string]string{} // theirs is shuffled
			for step := range 30 {
				a, pause := ours.Next()
				b, want := theirs.Next()
				if known, ok := same[a]; ok && known != b || pause != want {
					t.Fatalf("%d servers, seed %d, step %d: %s, pause %v; the library has %s (before: %s), pause %v", n, seed, step, a, pause, b, known, want)
				}
				same[a] = b
				if random.IntN(3) == 0 {
					ours.Connected()
					theirs.Connected()
				}
			}
			if len(same) != n {
				t.Fatalf("%d of %d servers were tried", len(same), n)
			}
		}
	}
}
