// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/fencelock/fencelock/adapters/certmagiclock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

var (
	_ certmagic.Storage          = (*certmagiclock.Storage[certmagic.KeyInfo])(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Storage[certmagic.KeyInfo])(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Storage[certmagic.KeyInfo])(nil)
)

// unlocked is a storage whose lock does nothing, as that of several object stores.
type unlocked struct{ certmagic.Storage }

func (unlocked) Lock(context.Context, string) error   { return nil }
func (unlocked) Unlock(context.Context, string) error { return nil }

func init() {
	obtain := func(ctx context.Context, r *replica, storage certmagic.Storage, url string, roots *x509.CertPool) error {
		cache := certmagic.NewCache(certmagic.CacheOptions{GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) {
			return &certmagic.Default, nil
		}})
		defer cache.Stop()
		cfg := certmagic.New(cache, certmagic.Config{Storage: storage})
		port, err := servers.FreePort()
		if err != nil {
			return err
		}
		cfg.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(cfg, certmagic.ACMEIssuer{
			CA: url, Email: "a@example.com", Agreed: true, TrustedRoots: roots,
			DisableTLSALPNChallenge: true, ListenHost: "127.0.0.1", AltHTTPPort: port,
		})}
		err = cfg.ManageSync(ctx, []string{"example.com"})
		r.note("%v", err)
		return nil
	}
	role := func(wrap func(*replica, certmagic.Storage) certmagic.Storage) func(context.Context, *replica) error {
		return func(ctx context.Context, r *replica) error {
			dir, url, _ := strings.Cut(r.extra, "|")
			roots := x509.NewCertPool()
			cert, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
			if err != nil {
				return err
			}
			roots.AppendCertsFromPEM(cert)
			inner := unlocked{&certmagic.FileStorage{Path: filepath.Join(dir, "storage")}}
			return obtain(ctx, r, wrap(r, inner), url, roots)
		}
	}
	roles["certmagic"] = role(func(r *replica, inner certmagic.Storage) certmagic.Storage {
		return certmagiclock.New[certmagic.KeyInfo](inner, r.client, nil)
	})
	roles["certmagic bare"] = role(func(_ *replica, inner certmagic.Storage) certmagic.Storage { return inner })
}

// authority is Pebble, a CA for tests, and counts orders.
type authority struct {
	server *httptest.Server
	orders atomic.Int32
	// hold stops an order until it is closed.
	hold chan struct{}
}

func startAuthority(t *testing.T) *authority {
	// Pebble reads its settings there when it is made.
	t.Setenv("PEBBLE_VA_ALWAYS_VALID", "1")
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	logger := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	front := wfe.New(logger, store, va.New(logger, 80, 443, false, "", store),
		ca.New(logger, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "default"}}),
		[]string{"pebble.example"}, false, false, 1, 1)
	handler := front.Handler()
	a := &authority{}
	a.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/order-plz") {
			a.orders.Add(1)
			if a.hold != nil {
				select {
				case <-a.hold:
				case <-r.Context().Done():
				}
			}
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(a.server.Close)
	return a
}

// folder is where the replicas share certificates; it has the CA's own certificate.
func (a *authority) folder(t *testing.T) string {
	dir := t.TempDir()
	var b bytes.Buffer
	if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (a *authority) extra(dir string) string { return dir + "|" + a.server.URL + wfe.DirectoryPath }

// TestCertmagicOrdersOnce: two replicas need a certificate for one name. One orders it, the
// other loads it. With a storage that does not lock, both order.
func TestCertmagicOrdersOnce(t *testing.T) {
	measure := func(role string) int {
		a := startAuthority(t)
		for _, r := range newSite(t).atOnce(role, a.extra(a.folder(t))) {
			// Without locks one replica may overwrite the key of the other.
			if r.what != "<nil>" && role != "certmagic bare" {
				t.Errorf("%s: a replica has no certificate: %s", role, r.what)
			}
		}
		return int(a.orders.Load())
	}
	if orders := measure("certmagic"); orders != 1 {
		t.Errorf("%d orders, want 1", orders)
	}
	proved(t, "certmagic", 0)
	orders := measure("certmagic bare")
	withoutAdapter(max(0, orders-1))
	t.Logf("with a storage that does not lock: %d orders", orders)
}

// TestCertmagicSurvivesAKill: a replica that is killed in the middle of an order lets another
// one finish, after the TTL.
func TestCertmagicSurvivesAKill(t *testing.T) {
	a, s := startAuthority(t), newSite(t)
	a.hold = make(chan struct{})
	dir := a.folder(t)
	first := s.start("certmagic", 0, a.extra(dir))
	if err := servers.Await("an order", func() bool { return a.orders.Load() == 1 }); err != nil {
		t.Fatal(err)
	}
	second := s.start("certmagic", 0, a.extra(dir))
	s.end(first, syscall.SIGKILL)
	close(a.hold)
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
	if all := s.await(1); all[0].what != "<nil>" || all[0].pid != second.Process.Pid {
		t.Errorf("%v, want the second replica to have a certificate", all)
	}
	proved(t, "certmagic", 0)
}
