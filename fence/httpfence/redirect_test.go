// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/internal/must"
)

// recorder is a host that remembers the headers it got, by path, and redirects
// where the query says.
func recorder(t *testing.T) (host *httptest.Server, got func(path string) string) {
	t.Helper()
	seen := map[string]string{}
	host = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen[r.URL.Path] = strings.Join(r.Header.Values(httpfence.Header), "|")
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(host.Close)
	return host, func(path string) string { return seen[path] }
}

func to(base, path, next string) string { return base + path + "?to=" + url.QueryEscape(next) }

// TestTokenDoesNotFollowARedirectToAnotherHost: a stranger could replay it.
func TestTokenDoesNotFollowARedirectToAnotherHost(t *testing.T) {
	ours, gotOurs := recorder(t)
	stranger, gotStranger := recorder(t)
	const mark = "a;768;ann"
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 768, Holder: "ann"})
	send := func(tr *httpfence.Transport, address string, header bool) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		must.OK(t, err)
		if header { // net/http copies it to the request of a redirect
			r.Header.Set(httpfence.Header, mark)
		}
		resp, err := (&http.Client{Transport: tr}).Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	for _, header := range []bool{false, true} {
		must.OK(t, send(&httpfence.Transport{}, to(ours.URL, "/1", to(ours.URL, "/2", to(stranger.URL, "/3", ours.URL+"/4"))), header))
		for path, want := range map[string]string{"/1": mark, "/2": mark, "/4": ""} { // led to 4 by the stranger
			if got := gotOurs(path); got != want {
				t.Errorf("our host got %q at %s, want %q", got, path, want)
			}
		}
		if got := gotStranger("/3"); got != "" {
			t.Errorf("a stranger got %q after a redirect", got)
		}
	}
	lockA := func(*http.Request) string { return "a" }
	if err := send(&httpfence.Transport{Lock: lockA}, to(ours.URL, "/5", stranger.URL+"/6"), false); err == nil || !strings.Contains(err.Error(), "Transport.Hosts") {
		t.Errorf("a request that needs the token, redirected: got %v", err)
	}
	u, err := url.Parse(stranger.URL)
	must.OK(t, err)
	listed := &httpfence.Transport{Lock: lockA, Hosts: []string{strings.TrimPrefix(ours.URL, "http://"), u.Hostname()}}
	if err := send(listed, to(ours.URL, "/7", stranger.URL+"/8"), false); err != nil || gotStranger("/8") != mark {
		t.Errorf("a host in the list: got %v, it got %q", err, gotStranger("/8"))
	}
	other := &httpfence.Transport{Hosts: []string{"elsewhere.example", u.Hostname() + ":1"}}
	if err := send(other, ours.URL+"/9", false); err != nil || gotOurs("/9") != "" {
		t.Errorf("a host that is not in the list: got %v, it got %q", err, gotOurs("/9"))
	}
	other.Lock = lockA
	if err := send(other, ours.URL+"/10", false); err == nil {
		t.Error("a request that needs the token was sent to a host that is not in the list")
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTokenDoesNotFollowARedirectToPlainHTTP: on the way to the same host it could be read.
func TestTokenDoesNotFollowARedirectToPlainHTTP(t *testing.T) {
	got := map[string]string{}
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		got[r.URL.String()] = r.Header.Get(httpfence.Header)
		w := httptest.NewRecorder()
		switch r.URL.String() {
		case "https://shelf.example/1":
			http.Redirect(w, r, "https://shelf.example/2", http.StatusTemporaryRedirect)
		case "https://shelf.example/2":
			http.Redirect(w, r, "http://shelf.example/3", http.StatusTemporaryRedirect)
		}
		resp := w.Result()
		resp.Request = r
		return resp, nil
	})
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 768, Holder: "ann"})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://shelf.example/1", nil)
	must.OK(t, err)
	resp, err := (&http.Client{Transport: &httpfence.Transport{Base: base}}).Do(r)
	must.OK(t, err)
	_ = resp.Body.Close()
	for address, want := range map[string]string{"https://shelf.example/1": "a;768;ann", "https://shelf.example/2": "a;768;ann", "http://shelf.example/3": ""} {
		if header, sent := got[address]; !sent || header != want {
			t.Errorf("%s got %q (%v), want %q", address, header, sent, want)
		}
	}
}
