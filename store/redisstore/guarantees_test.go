// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/redis/go-redis/v9"
)

// TestGuaranteesNameWhatIsAssumed: strict tokens depend on the clocks of servers, grace on
// masters that do not go on alone, and the guarantees name them in words.
func TestGuaranteesNameWhatIsAssumed(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // no server is needed
	defer client.Close()
	for _, tt := range []struct {
		name string
		opts redisstore.Options
		want []string
	}{
		{"without grace", redisstore.Options{}, []string{
			"the clock of the new server is not behind the old server's by more than the restart or failover takes.",
			"only the token distinguishes them",
		}},
		{"with grace", redisstore.Options{Grace: true, MaxTTL: 40 * time.Second}, []string{
			"the clock of the new server is not behind the old server's by more than 40s, its max_ttl (Options.MaxTTL).",
			"if the old master is down or stops accepting writes (min-replicas-to-write; in a cluster by itself) within 40s minus the TTL.",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, err := redisstore.New(client, &tt.opts)
			must.OK(t, err)
			locks, err := fencelock.New(store, nil)
			must.OK(t, err)
			text := locks.Guarantees().String()
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("the guarantees do not say %q:\n%s", want, text)
				}
			}
		})
	}
}
