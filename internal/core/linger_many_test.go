// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

var manyLeases = flag.Int("core.leases", 100_000, "how many leases TestIdleLocksAmongManyLeases holds")

// A renewal that fails gives idle locks back. What that takes does not depend on how many leases
// the session has: no lock, unlock or renewal of the process can go on during it.
func TestIdleLocksAmongManyLeases(t *testing.T) {
	const idle = 100
	doubt := func(leases int) (best time.Duration) {
		c := newClient(t, newStore(), &fencelock.Options{TTL: time.Minute})
		keep := lock(t, c, "kept")
		for i := range leases {
			lock(t, c, fmt.Sprint("held/", i))
		}
		for round := range 5 {
			for i := range idle {
				unlock(t, lock(t, c, fmt.Sprint("idle/", round, "/", i), fencelock.Linger(time.Minute)))
			}
			if took := coreLease(keep).Doubt(); best == 0 || took < best {
				best = took
			}
			coreLease(keep).Renewed()
		}
		return best
	}
	few, many := doubt(0), doubt(*manyLeases)
	t.Logf("%d idle locks were given back in %v alone, and in %v among %d leases", idle, few, many, *manyLeases)
	if many > 30*few {
		t.Errorf("%d idle locks were given back in %v alone, and in %v among %d leases", idle, few, many, *manyLeases)
	}
}
