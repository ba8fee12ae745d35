// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// TestOpenErrorsHaveOnePrefix: the error of a server that is away names one package.
func TestOpenErrorsHaveOnePrefix(t *testing.T) {
	packageName := regexp.MustCompile(`^[a-z]+: $`)
	for _, url := range []string{
		"redis://127.0.0.1:1", "redis-sentinel://127.0.0.1:1/m", "redis-cluster://127.0.0.1:1", "quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
		"etcd://127.0.0.1:1", "zk://127.0.0.1:1", "postgres://127.0.0.1:1/d", "mysql://u@127.0.0.1:1/d", "memcached://127.0.0.1:1",
		"redisson://127.0.0.1:1", "redisson-cluster://127.0.0.1:1", "setnx://127.0.0.1:1", "setnx://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "redisson://h?x=y", "setnx://h?x=y",
		"redis://h?grace=perhaps", "quorum://a,b", "etcd://h?grace=true", "zk://h?x=y", "postgres://h/d?buckets=1", "memcached://h/p", "mem://h", "nosuch://h",
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			store, err := fencelock.OpenStore(ctx, url)
			if err == nil { // a quorum does not ask when it is opened
				defer store.Close()
				_, err = store.Inspect(ctx, "x")
			}
			if err == nil {
				t.Fatal("no error")
			}
			text, ok := strings.CutSuffix(err.Error(), driver.Inner(err).Error())
			if !ok || !packageName.MatchString(text) {
				t.Errorf("want one prefix: %v", err)
			}
		})
	}
}
