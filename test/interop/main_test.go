// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"flag"
	"strconv"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
)

var all = flag.Bool("interop.all", false, "run with every version")

// chosen are the versions to run with.
func chosen() []string {
	if *all {
		return versions
	}
	return []string{newest}
}

// redisServer starts a server that ends with the test.
func redisServer(t testing.TB) *servers.RedisServer {
	t.Helper()
	if err := servers.Redis.Need(); err != nil {
		t.Skip(err)
	}
	return servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	return n
}
