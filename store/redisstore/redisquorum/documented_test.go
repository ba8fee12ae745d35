// SPDX-License-Identifier: Apache-2.0

package redisquorum_test

import (
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestExamples runs the example of the package on three servers. They have no
// grace: the first grace period would be as long as a TTL.
func TestExamples(t *testing.T) {
	url := "quorum://" + redistest.Start(t).Addr + "," + redistest.Start(t).Addr + "," + redistest.Start(t).Addr
	servers.Example(t, Example, "QUORUM_URL", url, "holding orders/42\n")
}
