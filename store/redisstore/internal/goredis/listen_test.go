// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"testing"

	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestListen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	redistest.CheckListener(t, server, New(client, ""))
}
