// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// TestTLS: a URL with zks is TLS, with the certificate of the client if the servers want one.
// What is wrong with a connection is in the error, although the client library goes on trying.
func TestTLS(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	cert, key, err := servers.SelfSigned(dir)
	must.OK(t, err)
	port, plain := secureServer(t, ctx, dir, cert, key)
	secure := net.JoinHostPort("127.0.0.1", port)
	const settings = "?tick_time=200ms&max_ttl=20s"
	ca, pair := "&tls_ca="+cert, "&tls_cert="+cert+"&tls_key="+key
	store, err := zkstore.Open(ctx, "zks://"+secure+settings+ca+pair, nil)
	must.OK(t, err)
	defer store.Close()
	lockOnce(t, ctx, store)
	if found, err := store.Check(ctx); err != nil || len(found) != 1 || found[0].Code != "standalone" {
		t.Errorf("Check by TLS: %v, %v", found, err)
	}
	for url, want := range map[string]string{
		"zks://" + secure + settings + pair:    "certificate signed by unknown authority",
		"zks://" + secure + settings + ca:      "certificate",
		"zk://" + secure + settings:            "use zks:// for a port with TLS",
		"zks://" + plain + settings + ca:       "write zk:// instead of zks://",
		"zk://" + secure + settings + ca:       "write zks instead of zk",
		"zks://" + secure + "?tls_ca=/nowhere": "tls_ca",
	} {
		bounded, end := context.WithTimeout(ctx, 3*time.Second)
		_, err := zkstore.Open(bounded, url, nil)
		end()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", url, err, want)
		}
	}
}

// TestTLSWithAHostName: a certificate that has the name of the server, and no address, is
// accepted for sessions as it is for Check.
func TestTLSWithAHostName(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	cert, key, err := servers.SelfSigned(dir, "localhost")
	must.OK(t, err)
	port, _ := secureServer(t, ctx, dir, cert, key)
	bounded, end := context.WithTimeout(ctx, 30*time.Second)
	defer end()
	store, err := zkstore.Open(bounded, "zks://localhost:"+port+"?tick_time=200ms&max_ttl=20s&tls_ca="+cert+"&tls_cert="+cert+"&tls_key="+key, nil)
	must.OK(t, err)
	defer store.Close()
	lockOnce(t, ctx, store)
}

// secureServer starts a server with a port for TLS, where clients need a certificate, and
// returns this port and the address without TLS.
func secureServer(t *testing.T, ctx context.Context, dir, cert, key string) (port, plain string) {
	t.Helper()
	free, err := servers.FreePort()
	must.OK(t, err)
	e := servers.Test(t, func() (*servers.Ensemble, error) {
		return servers.ZooKeeperWith(1, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			fmt.Sprint("secureClientPort=", free), "secureClientPortAddress=127.0.0.1", "ssl.clientAuth=need",
			"ssl.keyStore.type=PEM", "ssl.keyStore.location="+bothIn(t, dir, key, cert), "ssl.trustStore.type=PEM", "ssl.trustStore.location="+cert)
	})
	port = strconv.Itoa(free)
	listening(t, ctx, net.JoinHostPort("127.0.0.1", port))
	return port, e.Servers[0].Addr
}

// listening waits for an address: ZooKeeper listens there after its other port.
func listening(t *testing.T, ctx context.Context, addr string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

// bothIn writes the files into one, as ZooKeeper wants key and certificate.
func bothIn(t *testing.T, dir string, files ...string) string {
	t.Helper()
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.OK(t, err)
		all = append(all, text...)
	}
	both := filepath.Join(dir, "both.pem")
	must.OK(t, os.WriteFile(both, all, 0o600))
	return both
}
