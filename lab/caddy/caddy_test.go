// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// startAuthority starts Pebble, a CA for tests, and counts orders.
func startAuthority(t *testing.T, orders *atomic.Int32) *httptest.Server {
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
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/order-plz") {
			orders.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// storageOfThePage is the global option that the page of caddylock shows.
func storageOfThePage(t *testing.T) string {
	text, err := os.ReadFile("../../adapters/caddylock/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```text\n{\n")
	block, _, end := strings.Cut(block, "\n}\n```")
	if !ok || !end || !strings.Contains(block, "/mnt/certificates") {
		t.Fatal("the page has no such block")
	}
	return block
}

func freePort(t *testing.T) int {
	port, err := servers.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestCaddyOrdersOnce: two Caddy servers with the storage of the page serve one name. One of
// them orders the certificate, and both serve the same.
func TestCaddyOrdersOnce(t *testing.T) {
	redis := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
	var orders atomic.Int32
	authority := startAuthority(t, &orders)
	dir := t.TempDir()
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), root, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "server")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(binary, "list-modules").Output(); err != nil || !strings.Contains(string(out), "\ncaddy.storage.fencelock\n") {
		t.Fatalf("the module is not listed: %v\n%s", err, out)
	}
	storage := strings.ReplaceAll(storageOfThePage(t), "/mnt/certificates", filepath.Join(dir, "certificates"))
	var ports []int
	for i := range 2 {
		port := freePort(t)
		ports = append(ports, port)
		file := filepath.Join(dir, fmt.Sprintf("Caddyfile%d", i))
		text := fmt.Sprintf("{\n\tadmin off\n\thttp_port %d\n\thttps_port %d\n\temail a@example.com\n\tacme_ca %s%s\n\tacme_ca_root %s/ca.pem\n%s\n}\nexample.com {\n\trespond ok\n}\n",
			freePort(t), port, authority.URL, wfe.DirectoryPath, dir, storage)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, "run", "--adapter", "caddyfile", "--config", file)
		cmd.Env = append(os.Environ(), "FENCELOCK_URL=redis://"+redis.Addr, "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		cmd.Stderr = os.Stderr
		if err := servers.Start(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	serials := map[string]bool{}
	for _, port := range ports {
		if err := servers.Await("a certificate", func() bool {
			conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{ServerName: "example.com", InsecureSkipVerify: true})
			if err != nil {
				return false
			}
			defer conn.Close()
			serials[conn.ConnectionState().PeerCertificates[0].SerialNumber.String()] = true
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "certificates", "locks")); !os.IsNotExist(err) {
		t.Errorf("the storage behind the module locks, too: %v", err)
	}
	if orders.Load() != 1 || len(serials) != 1 {
		t.Errorf("%d orders and certificates %v, want one", orders.Load(), serials)
	}
}
