// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestFormatAndParse(t *testing.T) {
	for want, m := range map[string]fence.Mark{
		"orders%2F42;768":                {Lock: "orders/42", Token: 768},
		"orders%2F42;768;ann@host:7":     {Lock: "orders/42", Token: 768, Holder: "ann@host:7"},
		"a%3B1%0D%0A;1;%22x%22%20%C3%A4": {Lock: "a;1\r\n", Token: 1, Holder: `"x" ä`},
		"a;9223372036854775807":          {Lock: "a", Token: math.MaxInt64},
	} {
		text := httpfence.Format(m)
		if text != want {
			t.Errorf("got %s, want %s", text, want)
		}
		if back, err := httpfence.Parse(text); err != nil || back != m {
			t.Errorf("%s: got %v, %v back", text, back, err)
		}
	}
	for _, text := range []string{"", "768", "a;", ";768", "a;x", "a;0", "a;-1", "a;+1", "a;9223372036854775808", "a;1;b;c", "%;1", "a;1;%"} {
		if m, err := httpfence.Parse(text); !errors.Is(err, fence.ErrNoToken) {
			t.Errorf("%q: got %v, %v", text, m, err)
		}
	}
}

// TestTransportSendsTheLeaseOfTheContext and leaves the request as it was.
func TestTransportSendsTheLeaseOfTheContext(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Values(httpfence.Header) }))
	defer server.Close()
	c, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	must.OK(t, err)
	defer c.Close(context.Background())
	send := func(ctx context.Context, lock string) error {
		got = nil
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		client := &http.Client{Transport: &httpfence.Transport{Lock: func(*http.Request) string { return lock }}}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		if r.Header.Get(httpfence.Header) != "" {
			t.Error("the caller's request was changed")
		}
		return resp.Body.Close()
	}
	err = c.Do(t.Context(), "a", func(ctx context.Context, l *fencelock.Lease) error {
		for _, lock := range []string{"", "a"} {
			if err := send(ctx, lock); err != nil || len(got) != 1 || got[0] != "a;"+l.Token().String()+";ann" {
				t.Errorf("%q: the service got %q, %v", lock, got, err)
			}
		}
		// A request that is served carries a mark, and that comes first.
		marked := fence.With(ctx, fence.Mark{Lock: "b", Token: 7})
		for lock, want := range map[string]string{"": "b;7", "b": "b;7", "a": "a;" + l.Token().String() + ";ann"} {
			if err := send(marked, lock); err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("%q, with a mark: the service got %q, %v, want %s", lock, got, err, want)
			}
		}
		if err := send(ctx, "b"); !errors.Is(err, fence.ErrWrongLock) || got != nil {
			t.Errorf("another lock's token: %v, the service got %q", err, got)
		}
		return nil
	})
	must.OK(t, err)
	if err := send(t.Context(), "a"); !errors.Is(err, fence.ErrNoToken) || got != nil {
		t.Errorf("a request that needs a token and has none: %v, the service got %q", err, got)
	}
	if err := send(t.Context(), ""); err != nil || got != nil {
		t.Errorf("a request that needs none: %v, the service got %q", err, got)
	}
}

func TestHandlerAnswers(t *testing.T) {
	var seen fence.Mark
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, _ = fence.FromContext(r.Context(), "a")
		_, _ = io.WriteString(w, "done")
	})
	h, err := httpfence.Handler(func(*http.Request) string { return "a" }, next, &httpfence.Options{Remember: 1})
	must.OK(t, err)
	for _, tt := range []struct {
		headers []string
		status  int
		want    error
		newer   string
	}{
		{nil, http.StatusPreconditionRequired, fence.ErrNoToken, ""},
		{[]string{"nonsense"}, http.StatusPreconditionRequired, fence.ErrNoToken, ""},
		{[]string{"a;1", "a;2"}, http.StatusPreconditionRequired, fence.ErrNoToken, ""},
		{[]string{"b;768"}, http.StatusConflict, fence.ErrWrongLock, ""},
		{[]string{"a;768;ann"}, http.StatusOK, nil, ""},
		{[]string{"a;768"}, http.StatusOK, nil, ""},
		{[]string{"a;769;bob"}, http.StatusOK, nil, ""},
		{[]string{"a;768"}, http.StatusPreconditionFailed, fence.ErrStale, "a;769;bob"},
	} {
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header[httpfence.Header] = tt.headers
		w := httptest.NewRecorder()
		seen = fence.Mark{}
		h.ServeHTTP(w, r)
		resp := w.Result()
		resp.Request = r
		if err := httpfence.Error(resp); resp.StatusCode != tt.status || !errors.Is(err, tt.want) || resp.Header.Get(httpfence.Header) != tt.newer {
			t.Errorf("%q: got %s, %v, newer %q", tt.headers, resp.Status, err, resp.Header.Get(httpfence.Header))
		}
		if handed := seen.Token != 0; handed != (tt.want == nil) || handed && httpfence.Format(seen) != tt.headers[0] {
			t.Errorf("%q: the handler behind got %v", tt.headers, seen)
		}
	}
}

// TestMemoryIsBounded: to remember one more lock the middleware evicts another, and it
// always rejects a stale token of the lock that it saw last.
func TestMemoryIsBounded(t *testing.T) {
	passed := 0
	h, err := httpfence.Handler(func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") },
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }), &httpfence.Options{Remember: 2})
	must.OK(t, err)
	send := func(lock, token string) int {
		r := httptest.NewRequest(http.MethodPut, "/"+lock, nil)
		r.Header.Set(httpfence.Header, lock+";"+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, lock := range []string{"a", "b", "c", "d"} {
		if send(lock, "512") != http.StatusOK || send(lock, "511") != http.StatusPreconditionFailed {
			t.Errorf("%s: the lock that was seen last is not remembered", lock)
		}
	}
	late := 0
	for _, lock := range []string{"a", "b", "c", "d"} {
		if send(lock, "500") == http.StatusPreconditionFailed {
			late++
		}
	}
	if late > 2 {
		t.Errorf("%d locks are remembered, want 2 at most", late)
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	lock := func(*http.Request) string { return "a" }
	for what, err := range map[string]error{
		"no lock":    second(httpfence.Handler(nil, http.NotFoundHandler(), nil)),
		"no handler": second(httpfence.Handler(lock, nil, nil)),
		"memory":     second(httpfence.Handler(lock, http.NotFoundHandler(), &httpfence.Options{Remember: -1})),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if httpfence.Refuse(httptest.NewRecorder(), errors.New("other")) || httpfence.Refuse(httptest.NewRecorder(), nil) {
		t.Error("Refuse answered what is no refusal")
	}
}

func second[T any](_ T, err error) error { return err }
