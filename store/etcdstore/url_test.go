// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
)

func TestOpenReportsAWrongAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := Open(ctx, "etcd://127.0.0.1:1,127.0.0.1:2?dial_timeout=1m", nil)
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want an unavailable store with its address and the reason", err)
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	if _, err := New(nil, nil); err == nil {
		t.Error("New without a client is accepted")
	}
	for _, o := range []Options{{Namespace: strings.Repeat("x", 129)}, {MaxTTL: -1}, {MaxTTL: time.Millisecond}, {MaxTTL: 1500 * time.Millisecond}} {
		_, err := Open(t.Context(), "etcd://127.0.0.1:1", &o)
		if err == nil || !strings.Contains(err.Error(), "Options.") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestOpenStore: the schemes are registered and the parameters of all stores are read. No
// server listens.
func TestOpenStore(t *testing.T) {
	storetest.Refused(t, storetest.ByURL(t), map[string]string{
		"etcd://u:hunter2@127.0.0.1:1?max_ttl=1500ms": "Options.MaxTTL",
		"etcds://u:hunter2@127.0.0.1:1?namspace=x":    "did you mean namespace?",
		"etcd://u:hunter2@127.0.0.1:1?grace=true":     "does nothing",
		"etcd://u:hunter2@127.0.0.1:1?namespace=x":    "127.0.0.1:1",
	})
}

// TestOpenNamesTheSchemeThatWasMeant: over TLS and without, and what to trust.
func TestOpenNamesTheSchemeThatWasMeant(t *testing.T) {
	secure, plain := httptest.NewTLSServer(nil), httptest.NewServer(nil)
	defer secure.Close()
	defer plain.Close()
	for url, want := range map[string]string{
		"etcds://" + plain.Listener.Addr().String():                         "if the server does not use TLS, write etcd:// instead of etcds://",
		"etcds://" + secure.Listener.Addr().String():                        "is not trusted; give its CA by tls_ca=FILE",
		"etcd://" + secure.Listener.Addr().String() + "?dial_timeout=300ms": "if the servers use TLS, write etcds://",
	} {
		_, err := Open(t.Context(), url, nil)
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

// TestOpenNamesWhatIsWrongWithTLS: each error names the parameter that helps, and no other.
func TestOpenNamesWhatIsWrongWithTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12} // later versions refuse after the handshake
	server.StartTLS()
	defer server.Close()
	addr := server.Listener.Addr().String()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.OK(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for rest, want := range map[string]string{
		addr: "tls_ca=FILE",
		addr + "?tls_server_name=other&tls_ca=" + ca: "tls_server_name=NAME",
		addr + "?tls_ca=" + ca:                       "tls_cert=FILE",
	} {
		_, err := Open(t.Context(), "etcds://"+rest, nil)
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "does not use TLS") {
			t.Errorf("%s: got %v, want %s", rest, err, want)
		}
	}
}
