// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	servers.Example(t, Example, "REDIS_URL", "redis://"+redistest.Start(t).Addr, "holding orders/42\n")
}
