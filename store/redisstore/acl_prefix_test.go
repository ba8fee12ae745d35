// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestACLOfANamespaceThatBeginsAlike: the user of a namespace reaches no key and no channel
// of a namespace that begins with its name and a colon.
func TestACLOfANamespaceThatBeginsAlike(t *testing.T) {
	t.Parallel()
	server := redistest.Redis.Start(t)
	orders := libraries[0].open(t, login{Addr: server.Addr}, &redisstore.Options{Namespace: "orders"}).Store
	words := []any{"ACL", "SETUSER"}
	for _, w := range strings.Fields(orders.ACL("orders") + " >" + secret) {
		words = append(words, w)
	}
	must.OK(t, server.Do(words...).Err())
	user := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "orders", Password: secret})
	defer user.Close()
	const own, other = "orders:{orders:0}", "orders:payments:{orders:payments:0}"
	ctx := t.Context()
	if err := user.HDel(ctx, own, "lx").Err(); err != nil {
		t.Errorf("its own key: %v", err)
	}
	if err := user.Publish(ctx, own+":p:x", "m").Err(); err != nil {
		t.Errorf("its own channel: %v", err)
	}
	for _, key := range []string{other, "orders:x", "orders", "orders2:{orders2:0}"} {
		if err := user.HDel(ctx, key, "lx").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("key %s: got %v, want it forbidden", key, err)
		}
		if err := user.Publish(ctx, key+":p:x", "m").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("channel of %s: got %v, want it forbidden", key, err)
		}
	}
}
