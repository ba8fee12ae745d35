// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/memcachestore"
)

// secured listens with TLS before a server, as stunnel or a sidecar does: not every memcached is built with it.
func secured(t *testing.T, server *servers.MemcachedServer) (addr, ca string) {
	t.Helper()
	cert, key, err := servers.SelfSigned(t.TempDir())
	must.OK(t, err)
	pair, err := tls.LoadX509KeyPair(cert, key)
	must.OK(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}})
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				conn, err := net.Dial("tcp", server.Addr)
				if err != nil {
					return
				}
				defer conn.Close()
				go func() { _, _ = io.Copy(conn, client); conn.Close() }()
				_, _ = io.Copy(client, conn)
			}()
		}
	}()
	return l.Addr().String(), cert
}

// TestTLS: a URL with memcacheds is TLS, and the CA of the server is a parameter. What is wrong with a connection is in
// the error.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := startMemcached(t)
	addr, ca := secured(t, server)
	store, err := memcachestore.Open(t.Context(), "memcacheds://"+addr+"?tls_ca="+ca, nil)
	must.OK(t, err)
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	storetest.Runs(t, locks, err)
	storetest.Refused(t, storetest.ByURL(t), map[string]string{
		"memcacheds://" + addr:                          "certificate is not trusted",
		"memcacheds://" + server.Addr + "?tls_ca=" + ca: "write memcached:// instead of memcacheds://",
		"memcached://" + addr + "?tls_ca=" + ca:         "write memcacheds instead of memcached",
		"memcacheds://" + addr + "?tls_ca=/nowhere":     "tls_ca",
	})
}
