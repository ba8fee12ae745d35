// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/filefence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/internal/must"
)

// storage is what a service keeps a value in.
type storage interface {
	Enter(ctx context.Context) (string, error)
	Set(ctx context.Context, value string) error
	Get(ctx context.Context) (string, error)
}

// unguarded is a storage that leaves everything to the middleware.
type unguarded struct {
	mu    sync.Mutex
	value string
}

func (s *unguarded) Enter(ctx context.Context) (string, error) { return s.Get(ctx) }

func (s *unguarded) Set(_ context.Context, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
	return nil
}

func (s *unguarded) Get(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, nil
}

// stepHeader identifies to the service the context under which a case made a request,
// so that the request can be stopped inside the service too.
const stepHeader = "X-Step"

// service is a real HTTP server with the values of all cases, by name of lock.
type service struct {
	*httptest.Server
	values   sync.Map     // by lock: storage
	contexts sync.Map     // by number: context of the request at the client
	requests atomic.Int64 // to number them
	key      atomic.Value // the idempotency key of the last request
	handler  atomic.Pointer[http.Handler]
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{}
	s.restart(t.Context())
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	return s
}

func lockOf(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

// restart replaces the middleware by one that has seen no marks.
func (s *service) restart(context.Context) error {
	h, err := httpfence.Handler(lockOf, http.HandlerFunc(s.serve), nil)
	if err != nil {
		return err
	}
	s.handler.Store(&h)
	return nil
}

// serve is the handler behind the middleware.
func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	if ctx, ok := s.contexts.Load(r.Header.Get(stepHeader)); ok {
		fencetest.Step(ctx.(context.Context))
	}
	v, _ := s.values.Load(lockOf(r))
	s.key.Store(r.Header.Get("Idempotency-Key"))
	value, err := "", error(nil)
	if r.Method == http.MethodPut {
		body, _ := io.ReadAll(r.Body)
		err = v.(storage).Set(r.Context(), string(body))
	} else {
		value, err = v.(storage).Enter(r.Context())
	}
	switch {
	case httpfence.Refuse(w, err):
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		_, _ = io.WriteString(w, value)
	}
}

// call makes a request and returns the body of the answer or the refusal.
func (s *service) call(ctx context.Context, client *http.Client, method, lock, body string) (string, error) {
	id := strconv.FormatInt(s.requests.Add(1), 10)
	s.contexts.Store(id, ctx)
	defer s.contexts.Delete(id)
	r, err := http.NewRequestWithContext(ctx, method, s.URL+"/"+url.PathEscape(lock), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set(stepHeader, id)
	fencetest.Step(ctx)
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if refusal := httpfence.Error(resp); refusal != nil {
		return "", refusal
	}
	return string(text), err
}

// value is the value of a lock behind this service.
func (s *service) value(lock string, store func(lock string) (storage, error)) (*fencetest.Value, error) {
	st, err := store(lock)
	if err != nil {
		return nil, err
	}
	s.values.Store(lock, st)
	client := &http.Client{Transport: &httpfence.Transport{}}
	return &fencetest.Value{
		Enter: func(ctx context.Context) (string, error) { return s.call(ctx, client, http.MethodGet, lock, "") },
		Write: func(ctx context.Context, value string) error {
			_, err := s.call(ctx, client, http.MethodPut, lock, value)
			return err
		},
		Read: st.Get,
		LoseReply: func(ctx context.Context, value string) error {
			var d fencetest.Dialer
			base := &http.Transport{DialContext: d.DialContext}
			defer base.CloseIdleConnections()
			d.LoseNextReply(ctx)
			_, err := s.call(ctx, &http.Client{Transport: &httpfence.Transport{Base: base}}, http.MethodPut, lock, value)
			return err
		},
	}, nil
}

// harness has two replicas of a service over the same storage.
func harness(t *testing.T, name string, store func(lock string) (storage, error)) *fencetest.Harness {
	s, replica := newService(t), newService(t)
	return &fencetest.Harness{Name: name,
		Restart: func(ctx context.Context) error { return errors.Join(s.restart(ctx), replica.restart(ctx)) },
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			v, err := s.value(lock, store)
			if err == nil {
				v.Reopen = func(context.Context) (*fencetest.Value, error) { return replica.value(lock, store) }
			}
			return v, err
		}}
}

// inFiles keeps each value behind the guard of package filefence.
func inFiles(t *testing.T) func(lock string) (storage, error) {
	dir := t.TempDir()
	return func(lock string) (storage, error) {
		return filefence.NewLocal(filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(lock)))), lock)
	}
}

func TestServiceWithAGuard(t *testing.T) {
	fencetest.Run(t, harness(t, "http, with guarded storage", inFiles(t)))
}

// TestMiddlewareAloneIsRefused: what the package comment says about it.
func TestMiddlewareAloneIsRefused(t *testing.T) {
	var values sync.Map
	alone := func(lock string) (storage, error) {
		st, _ := values.LoadOrStore(lock, &unguarded{})
		return st.(storage), nil
	}
	for _, name := range []string{"G4/write-in-steps", "G9/restart", "G10/two-processes"} {
		t.Run(name, func(t *testing.T) {
			fencetest.Refuses(t, harness(t, "http middleware alone", alone), name)
		})
	}
}

// TestALostReplyIsNotMadeARefusal: net/http sends a request with an idempotency
// key again if its reply got lost. By then a newer holder may be in, and what was
// done would be reported as refused.
func TestALostReplyIsNotMadeARefusal(t *testing.T) {
	s := newService(t)
	st, err := inFiles(t)("a")
	must.OK(t, err)
	s.values.Store("a", st)
	old := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})
	newer := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 768})
	var d fencetest.Dialer
	var dialed atomic.Int32
	base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed.Add(1) == 2 { // to send it again
			if _, err := st.Enter(newer); err != nil {
				return nil, err
			}
		}
		return d.DialContext(ctx, network, addr)
	}}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &httpfence.Transport{Base: base}}
	for _, body := range []string{"a body", ""} {
		dialed.Store(0)
		base.CloseIdleConnections()
		must.OK(t, st.Set(old, "before"))
		if _, err := s.call(old, client, http.MethodGet, "a", ""); err != nil { // a connection is kept
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(old, http.MethodPut, s.URL+"/a", strings.NewReader(body))
		must.OK(t, err)
		r.Header.Set("Idempotency-Key", "a:512:1")
		d.LoseNextReply(old)
		resp, err := client.Do(r)
		if err == nil {
			t.Errorf("%q: the outcome of the write is unknown, and it is reported as %s, %v", body, resp.Status, httpfence.Error(resp))
			_ = resp.Body.Close()
		}
		if key := s.key.Load(); key != "a:512:1" {
			t.Errorf("the service got the idempotency key %q", key)
		}
		if got, err := st.Get(t.Context()); got != body || err != nil {
			t.Errorf("the value is %q, %v, want what was written, %q", got, err, body)
		}
	}
}
