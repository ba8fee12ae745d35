// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestServeUsesAReplacedCertificate: a server outlives its certificate. A hangup, which asks other servers to read their files again, does not
// end it.
func TestServeUsesAReplacedCertificate(t *testing.T) {
	t.Parallel()
	s, dir := startRedis(t), t.TempDir()
	users := filepath.Join(dir, "users.json")
	fencelockCLI(t, s.url(), "serve", "token", "ann", "--users", users).want(0)
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	at := time.Now()
	renew := func() []byte {
		t.Helper()
		newCert, newKey, err := servers.SelfSigned(t.TempDir())
		must.OK(t, err)
		at = at.Add(time.Second)
		for from, to := range map[string]string{newCert: cert, newKey: key} {
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, text, 0o600)
			}
			if err == nil {
				err = os.Chtimes(to, at, at)
			}
			must.OK(t, err)
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		must.OK(t, err)
		return pair.Certificate[0]
	}
	first := renew()
	p, url := serving(t, s, "--users", users, "--tls-cert", cert, "--tls-key", key)
	shown := func() []byte {
		t.Helper()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
		must.OK(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Raw
	}
	if !bytes.Equal(shown(), first) {
		t.Error("another certificate is shown at first")
	}
	next := renew()
	must.OK(t, p.cmd.Process.Signal(syscall.SIGHUP))
	if !bytes.Equal(shown(), next) {
		t.Error("the replaced certificate is not shown")
	}
	if !running(p) {
		t.Error("a hangup ended the server")
	}
}
