// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"flag"
	"os"
	"testing"
)

// together is how many tests run at a time: far more than there are processors,
// because nearly all of them wait, for a failover or for a grace.
const together = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", together)
	}
	os.Exit(m.Run())
}
