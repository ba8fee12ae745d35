// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

var servedAt = regexp.MustCompile(`serving .+ on (https?://\S+)`)

// serving starts the server and returns its URL.
func serving(t *testing.T, s *redisServer, args ...string) (*process, string) {
	t.Helper()
	return servingAt(t, s.url(), args...)
}

func servingAt(t *testing.T, store string, args ...string) (*process, string) {
	t.Helper()
	p := begin(t, store, append([]string{"serve", "--listen", "127.0.0.1:0", "--every", "100ms"}, args...)...)
	until(t, "it serves", func() bool { return servedAt.MatchString(p.err.String()) })
	return p, servedAt.FindStringSubmatch(p.err.String())[1]
}

func fetched(t *testing.T, url string) string {
	t.Helper()
	resp, err := web.Get(url)
	must.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return string(text)
}

// TestServe: the command shows the locks of the store, and ends with a signal while a
// viewer is connected.
func TestServe(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	l, err := s.client(t, nil).Mutex("a").Lock(t.Context())
	must.OK(t, err)
	p, url := serving(t, s)
	until(t, "the lock is shown", func() bool { return strings.Contains(fetched(t, url+"/v1/locks"), l.Token().String()) })
	contains(t, fetched(t, url+"/openapi.yaml"), "openapi: 3.1.0")
	contains(t, fetched(t, url+"/readyz"), "true")
	stream, err := web.Get(url + "/v1/events")
	must.OK(t, err)
	defer stream.Body.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.want(128 + int(syscall.SIGTERM))
}

// TestServeRefusesOtherAddresses: without users nothing but this machine can reach the
// server.
func TestServeRefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":7420", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:80", "127.0.0.1", "localhost.example.com:0", "2130706433:0"} {
		contains(t, fencelockCLI(t, "mem://", "serve", "--listen", addr).want(64).err.String(), "--listen")
	}
	contains(t, fencelockCLI(t, "mem://", "serve", "--every", "1ms").want(64).err.String(), "--every")
}

// TestServeUsers: with users a caller needs a token, and the token command makes one.
func TestServeUsers(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	users, log := filepath.Join(dir, "users.json"), filepath.Join(dir, "audit.log")
	contains(t, fencelockCLI(t, s.url(), "serve", "token", "ann").want(64).err.String(), "--users")
	contains(t, fencelockCLI(t, s.url(), "serve", "token", "ann", "--may", "all", "--users", users).want(64).err.String(), "see, take and force-unlock")
	made := fencelockCLI(t, s.url(), "serve", "token", "ann", "--may", "see,force-unlock", "--prefix", "a", "--users", users).want(0)
	token := strings.TrimSpace(made.out.String())
	if text, err := os.ReadFile(users); err != nil || strings.Contains(string(text), token) || strings.Contains(made.err.String(), token) {
		t.Errorf("the file has the token: %s, %v", text, err)
	}
	contains(t, fencelockCLI(t, s.url(), "serve", "token", "gateway", "--may", "none", "--users", users).want(0).err.String(), "without rights")
	_, url := serving(t, s, "--users", users, "--audit", log)
	contains(t, fetched(t, url+"/v1/locks"), `"status":401`)
	contains(t, fetched(t, url+"/"), "<!doctype html>")
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/me", nil)
	must.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := web.Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	contains(t, string(text), `"name":"ann"`, `"prefix":"a"`, `"force-unlock"`)
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"event":"denied"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestServeRefusesWhatIsUnsafe: users alone are not enough for other addresses, and
// settings that do not go together are rejected.
func TestServeRefusesWhatIsUnsafe(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users.json")
	fencelockCLI(t, "mem://", "serve", "token", "ann", "--users", users).want(0)
	for want, args := range map[string][]string{
		"in the clear":      {"--listen", "0.0.0.0:0", "--users", users},
		"both or neither":   {"--tls-cert", "x"},
		"needs --tls-cert":  {"--client-ca", "x"},
		"no such file":      {"--users", users + "x"},
		"without --users":   {"--listen", "0.0.0.0:0", "--plain-http"},
		"is a directory":    {"--users", users, "--audit", filepath.Dir(users)},
		"tls-missing.pem":   {"--users", users, "--tls-cert", "tls-missing.pem", "--tls-key", "x"},
		"only a loopback a": {"--listen", "[::]:0", "--tls-cert", "x", "--tls-key", "y"},
	} {
		contains(t, fencelockCLI(t, "mem://", append([]string{"serve"}, args...)...).want(64).err.String(), want)
	}
}
