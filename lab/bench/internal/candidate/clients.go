// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// newRueidis is the client of every candidate that takes one, with the library's
// defaults except for what locks never use: the cache. lockers is how many share
// it; each may take some connections for itself.
func newRueidis(addr string, lockers int) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true,
		BlockingPoolSize: max(rueidis.DefaultPoolSize, 4*lockers),
	})
}

// newGoRedis is the same for go-redis.
func newGoRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}

// shared closes a client when the last of its lockers is closed.
type shared struct {
	mu    sync.Mutex
	users int
	close func()
}

func (s *shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.users == 0 {
		s.close()
	}
}
