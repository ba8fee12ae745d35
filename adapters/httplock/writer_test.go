// SPDX-License-Identifier: Apache-2.0

package httplock_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/httplock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// serve starts a server, with HTTP/2 if that is asked for.
func serve(t *testing.T, h http.Handler, two bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = two
	if two {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// TestWriterIsThatOfTheServer: behind the middleware a handler can do what it can without.
func TestWriterIsThatOfTheServer(t *testing.T) {
	c := locktest.Client(t, memstore.New(nil), nil)
	for _, two := range []bool{false, true} {
		flushed := make(chan struct{})
		s := serve(t, handler(t, c, nil, func(w http.ResponseWriter, _ *http.Request) {
			_, flushes := w.(http.Flusher)
			_, hijacks := w.(http.Hijacker)
			_, copies := w.(io.ReaderFrom)
			if !flushes || hijacks == two || !copies {
				t.Errorf("HTTP/2 %v: Flusher %v, Hijacker %v, ReaderFrom %v", two, flushes, hijacks, copies)
			}
			rc := http.NewResponseController(w)
			must.OK(t, rc.SetWriteDeadline(time.Now().Add(time.Minute))) // found by Unwrap
			_, err := io.WriteString(w, "first ")
			must.OK(t, err)
			w.(http.Flusher).Flush()
			<-flushed // the client has the first part before the handler ends
			_, err = io.Copy(w, bytes.NewReader([]byte("second")))
			must.OK(t, err)
		}), two)
		resp, err := s.Client().Get(s.URL + "/a")
		must.OK(t, err)
		first := make([]byte, len("first "))
		_, err = io.ReadFull(resp.Body, first)
		must.OK(t, err)
		close(flushed)
		rest, err := io.ReadAll(resp.Body)
		if text := string(first) + string(rest); text != "first second" || err != nil || (resp.ProtoMajor == 2) != two {
			t.Errorf("%s: got %q, %v", resp.Proto, text, err)
		}
		_ = resp.Body.Close()
	}
}

// TestHijackedConnection is the handler's, also after the lock was lost.
func TestHijackedConnection(t *testing.T) {
	c := locktest.Client(t, memstore.New(nil), nil)
	opts := &httplock.Options{Lock: []fencelock.LockOption{fencelock.MaxHold(10 * time.Millisecond)}}
	s := serve(t, handler(t, c, opts, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		must.OK(t, err)
		defer conn.Close()
		<-r.Context().Done()
		_, err = rw.WriteString("HTTP/1.1 299 Mine\r\nContent-Length: 0\r\n\r\n")
		must.OK(t, err)
		must.OK(t, rw.Flush())
	}), false)
	resp, err := s.Client().Get(s.URL + "/a")
	must.OK(t, err)
	if _ = resp.Body.Close(); resp.StatusCode != 299 {
		t.Errorf("got %s", resp.Status)
	}
}

// plain is a writer that can do nothing else.
type plain struct{ http.ResponseWriter }

// hijackable is a writer that can be taken over, and not flushed.
type hijackable struct {
	http.ResponseWriter
	http.Hijacker
}

// TestWriterPromisesNoMore than the one below it.
func TestWriterPromisesNoMore(t *testing.T) {
	c := locktest.Client(t, memstore.New(nil), nil)
	for _, below := range []http.ResponseWriter{plain{httptest.NewRecorder()}, hijackable{ResponseWriter: httptest.NewRecorder()}} {
		_, want := below.(http.Hijacker)
		h := handler(t, c, nil, func(w http.ResponseWriter, _ *http.Request) {
			_, flushes := w.(http.Flusher)
			_, hijacks := w.(http.Hijacker)
			if flushes || hijacks != want {
				t.Errorf("%T: Flusher %v, Hijacker %v", below, flushes, hijacks)
			}
			if err := http.NewResponseController(w).Flush(); err == nil {
				t.Errorf("%T was flushed", below)
			}
		})
		h.ServeHTTP(below, httptest.NewRequest(http.MethodGet, "/a", bufio.NewReader(strings.NewReader(""))))
	}
}
