// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var servedAt = regexp.MustCompile(`serving \w+ on (https?://\S+)`)

// serving starts the server and returns its URL.
func serving(t *testing.T, s *server, args ...string) (*process, string) {
	t.Helper()
	p := begin(t, s.url(), append([]string{"serve", "--listen", "127.0.0.1:0", "--every", "100ms"}, args...)...)
	until(t, "it serves", func() bool { return servedAt.MatchString(p.err.String()) })
	return p, servedAt.FindStringSubmatch(p.err.String())[1]
}

func fetched(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestServe: the command shows the locks of the store, and ends with a signal while a
// viewer is connected.
func TestServe(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	l, err := s.client(t, nil).Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, url := serving(t, s)
	until(t, "the lock is shown", func() bool { return strings.Contains(fetched(t, url+"/v1/locks"), l.Token().String()) })
	contains(t, fetched(t, url+"/openapi.yaml"), "openapi: 3.1.0")
	contains(t, fetched(t, url+"/readyz"), "true")
	stream, err := http.Get(url + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
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
