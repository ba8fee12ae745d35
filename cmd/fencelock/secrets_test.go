// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// TestNoMessageShowsAPassword: whatever is wrong with a URL, no error of any store
// repeats the secret in it. No server listens at the addresses that are valid.
func TestNoMessageShowsAPassword(t *testing.T) {
	const secret = "s3cret"
	forms := []string{
		"user:s3cret@127.0.0.1:1",
		"user:s3cret@127.0.0.1:1/db",
		":s3cret@127.0.0.1:1/db",
		"user:s3cret@127.0.0.1:port/db",
		"user:s3cret@127.0.0.1:1/%zz",
		"user:s3cret%zz@127.0.0.1:1/db",
		"user:s3cret\x7f@127.0.0.1:1/db",
		"user:s3cret /x@127.0.0.1:1/db",
		"user:s3cret?x@127.0.0.1:1/db",
		"user:s3cret#x@127.0.0.1:1/db",
		"user:s3cret@x@127.0.0.1:1/db",
		"user:s3cret@[::1/db",
		"user:s3cret@",
		"user:s3cret@127.0.0.1:1,127.0.0.1:port/db",
		"127.0.0.1:1/db?password=s3cret",
		"127.0.0.1:1/db?user=a&password=s3cret%zz",
		"127.0.0.1:1/db?nonsense=s3cret",
		"127.0.0.1:1/db?namespace=a/b&timeout=s3cret",
		"127.0.0.1:1/db?tls=s3cret&sslmode=s3cret&db=s3cret&max_ttl=s3cret",
	}
	for _, e := range storeKinds {
		for _, scheme := range e.schemes {
			t.Run(scheme, func(t *testing.T) {
				t.Parallel()
				var wg sync.WaitGroup
				for _, form := range forms {
					wg.Go(func() { // some take their time to give up
						ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
						defer cancel()
						store, err := openStore(ctx, scheme+"://"+form, "", driver.OpenOptions{Warn: func(driver.Finding) {}})
						if err == nil {
							err = store.Close()
						}
						if err != nil && strings.Contains(err.Error(), secret) {
							t.Errorf("%q: %v", form, err)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
