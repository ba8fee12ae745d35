// SPDX-License-Identifier: Apache-2.0

package rueidisclient

import (
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/rueidis"
)

// TestListen: whether the server speaks RESP3, where pushes share a connection
// with answers, or RESP2, where they do not.
func TestListen(t *testing.T) {
	for name, resp2 := range map[string]bool{"RESP2": true, "RESP3": false} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true, AlwaysRESP2: resp2,
			})
			must.OK(t, err)
			defer client.Close()
			redistest.CheckListener(t, server, &Client{client: client})
		})
	}
}
