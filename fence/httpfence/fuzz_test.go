// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/internal/must"
)

func FuzzParse(f *testing.F) {
	f.Add("orders%2F42;768;ann")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := httpfence.Parse(text)
		if err != nil {
			if !errors.Is(err, fence.ErrNoToken) || m != (fence.Mark{}) {
				t.Errorf("%q: %v, %v", text, m, err)
			}
			return
		}
		if back, err := httpfence.Parse(httpfence.Format(m)); err != nil || back != m {
			t.Errorf("%q is %v, and %v, %v after writing it again", text, m, back, err)
		}
	})
}

// FuzzHandler sends two requests of any sender after one with token 768. Whatever
// the headers are, no request below 768 passes, one that passes is handed on as it
// was sent, and the client understands every refusal.
func FuzzHandler(f *testing.F) {
	f.Add("a", "a;512", "a;769;bob", false)
	f.Fuzz(func(t *testing.T, lock, first, second string, twice bool) {
		var passed []fence.Mark
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			m, err := fence.FromContext(r.Context(), lock)
			if err != nil {
				t.Errorf("a request without the token of %q passed: %v", lock, err)
			}
			passed = append(passed, m)
		})
		h, err := httpfence.Handler(func(*http.Request) string { return lock }, next, &httpfence.Options{Remember: 1})
		must.OK(t, err)
		highest := fence.Mark{}
		if lock != "" {
			highest = fence.Mark{Lock: lock, Token: 768, Holder: "ann"}
		}
		send := func(values ...string) {
			passed = nil
			r := httptest.NewRequest(http.MethodPut, "/", nil)
			r.Header[httpfence.Header] = values
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			resp := w.Result()
			resp.Request = r
			refusal := httpfence.Error(resp)
			if (resp.StatusCode == http.StatusOK) != (len(passed) == 1) || (refusal == nil) != (len(passed) == 1) {
				t.Fatalf("%q: %s, refusal %v, passed %v", values, resp.Status, refusal, passed)
			}
			for name, all := range resp.Header {
				for _, v := range all {
					if strings.ContainsAny(v, "\r\n\x00") {
						t.Errorf("%q: the header %s of the answer is %q", values, name, v)
					}
				}
			}
			var stale *fence.StaleError
			if errors.As(refusal, &stale) && stale.Newer != highest {
				t.Errorf("%q: the refusal names %v, the newest is %v", values, stale.Newer, highest)
			}
			if len(passed) == 0 {
				return
			}
			m, err := httpfence.Parse(values[0])
			if len(values) != 1 || err != nil || m != passed[0] || m.Lock != lock || m.Token < highest.Token {
				t.Errorf("%q passed as %v, %v, after %v", values, passed[0], err, highest)
			}
			highest = m
		}
		send(httpfence.Format(highest))
		if twice {
			send(first, second)
		}
		send(first)
		send(second)
	})
}
