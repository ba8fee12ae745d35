// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestLocalServerAnswersToLocalhost: a name of another site that points at a loopback address
// makes a page of that site one of ours (DNS rebinding); such names are rejected. Without
// users no lock can be broken.
func TestLocalServerAnswersToLocalhost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	l := w.hold("ann", "a")[0]
	for host, want := range map[string]int{
		"localhost": 200, "localhost:7420": 200, "127.0.0.1:1": 200, "[::1]:7420": 200, "LocalHost": 200, "127.8.8.8": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "192.168.0.1": 403, "[::]": 403, "0.0.0.0:7420": 403, "evil@localhost": 403,
	} {
		if status := w.get("/v1/locks", nil, func(r *http.Request) { r.Host = host }); status != want {
			t.Errorf("%s: got %d, want %d", host, status, want)
		}
	}
	body := `{"lock":"a","token":"` + l.Token().String() + `","reason":"x"}`
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.web.URL+"/v1/break", strings.NewReader(body))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	var denied struct{ Detail string }
	if status := w.do(req, &denied); status != http.StatusForbidden || !strings.Contains(denied.Detail, "start it with --users") {
		t.Errorf("break without users: %d %q", status, denied.Detail)
	}
}
