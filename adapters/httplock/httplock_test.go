// SPDX-License-Identifier: Apache-2.0

package httplock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/httplock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// path names the lock by the path of the request.
func path(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

// handler is a function behind the middleware.
func handler(t *testing.T, c *fencelock.Client, opts *httplock.Options, f http.HandlerFunc) http.Handler {
	t.Helper()
	m, err := httplock.Middleware(c, path, opts)
	must.OK(t, err)
	return m(f)
}

// get makes a request for lock "a".
func get(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/a", nil))
	return w
}

// answered checks a status and Retry-After, "" for none.
func answered(t *testing.T, what string, w *httptest.ResponseRecorder, code int, after string) {
	t.Helper()
	if w.Code != code || w.Header().Get("Retry-After") != after {
		t.Errorf("%s: %d, Retry-After %q, %q; want %d, %q", what, w.Code, w.Header().Get("Retry-After"), w.Body, code, after)
	}
}

func never(t *testing.T) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler was called without the lock") }
}

// TestHandlerHoldsTheLock: its context carries the lease, for guards, and the lock is free afterwards.
func TestHandlerHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, locktest.Owner("web-1"))
		var mark fence.Mark
		h := handler(t, c, &httplock.Options{Lock: []fencelock.LockOption{fencelock.Reason("pay")}}, func(w http.ResponseWriter, r *http.Request) {
			var err error
			mark, err = fence.FromContext(r.Context(), "a")
			must.OK(t, err)
			st := locktest.Status(t, store, "a")
			if len(st.Holders) != 1 || st.Holders[0].Token != mark.Token || st.Holders[0].Record.Reason != "pay" {
				t.Errorf("held by %v, and the token is %v", st.Holders, mark)
			}
			w.WriteHeader(http.StatusCreated)
		})
		answered(t, "free", get(t.Context(), h), http.StatusCreated, "")
		locktest.Free(t, store, "a")
		first := mark.Token
		answered(t, "again", get(t.Context(), h), http.StatusCreated, "")
		if mark.Token <= first {
			t.Errorf("the tokens are %d and %d", first, mark.Token)
		}
	})
}

// TestAnswers: without the lock, the handler is not called.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		other := locktest.Client(t, store, nil)
		c := locktest.Client(t, store, nil)
		try := handler(t, c, nil, never(t))
		wait := handler(t, c, &httplock.Options{Wait: 3 * time.Second}, never(t))

		l := locktest.Got(t)(other.Mutex("a").Lock(t.Context()))
		answered(t, "busy", get(t.Context(), try), http.StatusConflict, "1")
		began := time.Now()
		answered(t, "busy for too long", get(t.Context(), wait), http.StatusGatewayTimeout, "1")
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %v", waited)
		}
		locktest.Unlock(t, l)
		locktest.Unlock(t, locktest.Got(t)(other.Mutex("a", fencelock.MinHold(90*time.Second)).Lock(t.Context())))
		answered(t, "reserved", get(t.Context(), try), http.StatusConflict, "90")

		w := httptest.NewRecorder()
		try.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		answered(t, "no name", w, http.StatusInternalServerError, "")
	})
}

// TestAnswersOfAStoreWithoutLocks: in its grace period, silent, and closed.
func TestAnswersOfAStoreWithoutLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graceful := memstore.New(&memstore.Options{Grace: true, MaxTTL: time.Minute})
		c := locktest.Client(t, graceful, nil)
		locktest.Unlock(t, locktest.Got(t)(c.Mutex("b").Lock(t.Context())))
		graceful.Reset()
		try, wait := handler(t, c, nil, never(t)), handler(t, c, &httplock.Options{Wait: 20 * time.Second}, never(t))
		answered(t, "grace", get(t.Context(), try), http.StatusServiceUnavailable, "60")
		answered(t, "grace, after a wait", get(t.Context(), wait), http.StatusServiceUnavailable, "40")

		silent := locktest.Client(t, locktest.Faulty(t, memstore.New(nil), `on(open, refuse)`), nil)
		answered(t, "silent", get(t.Context(), handler(t, silent, nil, never(t))), http.StatusServiceUnavailable, "1")
		answered(t, "silent, after a wait", get(t.Context(), handler(t, silent, &httplock.Options{Wait: time.Minute}, never(t))), http.StatusServiceUnavailable, "1")

		must.OK(t, c.Close(t.Context()))
		answered(t, "closed", get(t.Context(), try), http.StatusServiceUnavailable, "1")
	})
}

// TestRequestsQueue: with a wait, requests get the lock one after the other.
func TestRequestsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		inside, most := 0, 0
		work := func(w http.ResponseWriter, _ *http.Request) {
			inside++
			most = max(most, inside)
			time.Sleep(time.Second)
			inside--
			fmt.Fprint(w, "done")
		}
		replica := func() http.Handler {
			return handler(t, locktest.Client(t, store, nil), &httplock.Options{Wait: time.Minute}, work)
		}
		replicas := []http.Handler{replica(), replica()}
		var calls []*locktest.Call[*httptest.ResponseRecorder]
		for i := range 6 {
			calls = append(calls, locktest.Go(func() (*httptest.ResponseRecorder, error) { return get(t.Context(), replicas[i%2]), nil }))
		}
		for _, call := range calls {
			w, _ := call.Wait()
			answered(t, "queued", w, http.StatusOK, "")
		}
		if most != 1 {
			t.Errorf("%d requests at once", most)
		}
	})
}

// TestLoss: the context ends. A handler that has not answered is answered for, with 500; what a
// handler has begun to answer stays.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		lose := func(w http.ResponseWriter, r *http.Request) {
			locktest.Ended(t, r.Context())
			locktest.Is(t, context.Cause(r.Context()), fencelock.ErrLost)
		}
		opts := func() *httplock.Options {
			return &httplock.Options{Lock: []fencelock.LockOption{fencelock.MaxHold(time.Second)}}
		}
		answered(t, "lost", get(t.Context(), handler(t, c, opts(), lose)), http.StatusInternalServerError, "")
		for what, begin := range map[string]func(w http.ResponseWriter){
			"status":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
			"body":       func(w http.ResponseWriter) { fmt.Fprint(w, "begun") },
			"string":     func(w http.ResponseWriter) { _, _ = io.WriteString(w, "begun") },
			"copy":       func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("begun")) },
			"flush":      func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
			"controller": func(w http.ResponseWriter) { must.OK(t, http.NewResponseController(w).Flush()) },
		} {
			time.Sleep(time.Second) // the store lets go of the lock a little later than the lease
			w := get(t.Context(), handler(t, c, opts(), func(w http.ResponseWriter, r *http.Request) { begin(w); lose(w, r) }))
			if w.Code >= 300 || strings.Contains(w.Body.String(), "lost") {
				t.Errorf("%s: the answer became %d, %q", what, w.Code, w.Body)
			}
		}
		for what, begin := range map[string]func(w http.ResponseWriter){
			"early hints": func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
			"empty copy":  func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("")) },
		} {
			h := handler(t, c, opts(), func(w http.ResponseWriter, r *http.Request) { begin(w); lose(w, r) })
			time.Sleep(time.Second)
			server := &hinted{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(server, httptest.NewRequest(http.MethodGet, "/a", nil))
			answered(t, what, server.ResponseRecorder, http.StatusInternalServerError, "")
		}
	})
}

// hinted is a recorder that takes early hints as a server does: the answer is still to come.
type hinted struct{ *httptest.ResponseRecorder }

func (h *hinted) WriteHeader(code int) {
	if code >= 200 {
		h.ResponseRecorder.WriteHeader(code)
	}
}

// TestLossIsAnsweredWithoutTheHeadersOfTheHandler: they are of an answer that it did not give. Those
// of a middleware before stay.
func TestLossIsAnsweredWithoutTheHeadersOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		h := handler(t, c, &httplock.Options{Lock: []fencelock.LockOption{fencelock.MaxHold(time.Second)}}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Set-Cookie", "paid=yes")
			w.Header().Set("X-Request-Id", "8")
			locktest.Ended(t, r.Context())
		})
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "7")
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/a", nil))
		answered(t, "lost", w, http.StatusInternalServerError, "")
		if got := w.Header(); got.Get("Content-Encoding") != "" || got.Get("Set-Cookie") != "" || got.Get("X-Request-Id") != "7" {
			t.Errorf("the headers are %v", got)
		}
	})
}

// TestClosedMeanwhile: a client that is closed ends its leases.
func TestClosedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		h := handler(t, c, nil, func(_ http.ResponseWriter, r *http.Request) {
			must.OK(t, c.Close(context.Background()))
			locktest.Ended(t, r.Context())
		})
		answered(t, "closed", get(t.Context(), h), http.StatusInternalServerError, "")
	})
}

// TestPanic: the lock is given back, the panic goes on, and nothing is answered for the handler.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		for _, d := range []time.Duration{0, 2 * time.Second} { // held, and lost
			w := httptest.NewRecorder()
			h := handler(t, c, &httplock.Options{Lock: []fencelock.LockOption{fencelock.MaxHold(time.Second)}}, func(http.ResponseWriter, *http.Request) {
				time.Sleep(d)
				panic(http.ErrAbortHandler)
			})
			got := locktest.Panics(func() { h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/a", nil)) })
			if got != http.ErrAbortHandler || w.Body.Len() > 0 {
				t.Errorf("after %v: panic %v, answer %q", d, got, w.Body)
			}
			locktest.Free(t, store, "a")
		}
	})
}

// TestClientGoesAway: a request in the queue leaves it, and one that is served is canceled and gives the lock back.
func TestClientGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		opts := &httplock.Options{Wait: time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		served := locktest.Go(func() (*httptest.ResponseRecorder, error) {
			return get(ctx, handler(t, c, opts, func(_ http.ResponseWriter, r *http.Request) { locktest.Ended(t, r.Context()) })), nil
		})
		synctest.Wait()
		behind, leave := context.WithCancel(t.Context())
		queued := locktest.Go(func() (*httptest.ResponseRecorder, error) { return get(behind, handler(t, c, opts, never(t))), nil })
		synctest.Wait()
		leave()
		w, _ := queued.Wait()
		answered(t, "left the queue", w, http.StatusServiceUnavailable, "1")
		served.Waits(t, "the lock is held")
		cancel()
		_, _ = served.Wait()
		time.Sleep(time.Second)
		locktest.Free(t, store, "a")
	})
}

// TestUnconfirmedUnlockIsNoFailure: the store does not answer, and the unlock is repeated.
func TestUnconfirmedUnlockIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, locktest.Faulty(t, store, `on(withdraw, nth(1, refuse))`), nil)
		answered(t, "not confirmed", get(t.Context(), handler(t, c, nil, func(http.ResponseWriter, *http.Request) {})), http.StatusOK, "")
		time.Sleep(time.Minute)
		locktest.Free(t, store, "a")
	})
}

// TestErrorHandler answers in place of the default, which does not name holders.
func TestErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		l := locktest.Got(t)(locktest.Client(t, store, locktest.Owner("web-2:4711")).Mutex("a").Lock(t.Context()))
		defer locktest.Unlock(t, l)
		c := locktest.Client(t, store, nil)
		if w := get(t.Context(), handler(t, c, nil, never(t))); strings.Contains(w.Body.String(), "web-2") {
			t.Errorf("the answer names a holder: %q", w.Body)
		}
		opts := &httplock.Options{Error: func(w http.ResponseWriter, r *http.Request, err error) {
			code, after := httplock.Status(err)
			http.Error(w, fmt.Sprint(r.URL.Path, errors.Is(err, fencelock.ErrBusy), code, after), http.StatusTeapot)
		}}
		if w := get(t.Context(), handler(t, c, opts, never(t))); w.Code != http.StatusTeapot || w.Body.String() != "/atrue 409 1s\n" {
			t.Errorf("got %d, %q", w.Code, w.Body)
		}
	})
}

func TestBadOptionsAreErrors(t *testing.T) {
	c := locktest.Client(t, memstore.New(nil), nil)
	for what, err := range map[string]error{
		"no client": second(httplock.Middleware(nil, path, nil)),
		"no name":   second(httplock.Middleware(c, nil, nil)),
		"wait":      second(httplock.Middleware(c, path, &httplock.Options{Wait: -1})),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	unsupported := fmt.Errorf("x: %w", fencelock.ErrUnsupported)
	if code, after := httplock.Status(unsupported); code != http.StatusInternalServerError || after != 0 {
		t.Errorf("%v: %d, %v", unsupported, code, after)
	}
	if code, _ := httplock.Status(&fencelock.BusyError{Holders: []driver.Holder{{EndsIn: time.Hour}}}); code != http.StatusConflict {
		t.Errorf("busy: %d", code)
	}
}

func second[T any](_ T, err error) error { return err }
