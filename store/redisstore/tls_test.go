// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t)
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			opts := &redisstore.Options{Namespace: lib.name}
			to := login{Addr: server.Addr, TLS: server.Config}
			redistest.Use(t, lib.open(t, to, opts), lib.open(t, to, opts))
		})
	}
	t.Run("url", func(t *testing.T) {
		values := url.Values{"tls_ca": {server.CA}, "tls_cert": {server.Cert}, "tls_key": {server.Key}}
		s := open(t, "rediss://"+server.Addr+"?"+values.Encode(), nil)
		redistest.Use(t, s, s)
	})
}

// TestTLSRefused: without trust nothing was sent, and the error says why.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t)
	c, err := dialGoRedis(login{Addr: server.Addr, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, nil)
	must.OK(t, err)
	defer c.close()
	_, err = c.Inspect(t.Context(), "x")
	if want := "certificate is not trusted"; !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want one that wraps %q and says %q", err, driver.ErrUnavailable, want)
	}
}

// open is redisstore.Open for a test: it ends with it.
func open(t *testing.T, url string, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), url, opts)
	must.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
