// SPDX-License-Identifier: Apache-2.0

package httplock

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// track returns a writer that does what w does, and a function that reports whether the
// answer has begun. Code that asks for http.Flusher or http.Hijacker finds them if w has
// them; for everything else there is http.ResponseController, which finds w by Unwrap.
func track(w http.ResponseWriter) (tracked http.ResponseWriter, begun func() bool) {
	t := &writer{ResponseWriter: w}
	begun = func() bool { return t.begun }
	_, flushes := w.(http.Flusher)
	_, hijacks := w.(http.Hijacker)
	switch {
	case flushes && hijacks: // HTTP/1
		return struct {
			*writer
			flusher
			hijacker
		}{t, flusher{t}, hijacker{t}}, begun
	case flushes: // HTTP/2
		return struct {
			*writer
			flusher
		}{t, flusher{t}}, begun
	case hijacks:
		return struct {
			*writer
			hijacker
		}{t, hijacker{t}}, begun
	}
	return t, begun
}

// writer is an http.ResponseWriter that knows whether the answer has begun.
type writer struct {
	http.ResponseWriter
	begun bool
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer, unless the code is one that comes before the answer.
func (w *writer) WriteHeader(code int) {
	if code >= 200 || code == http.StatusSwitchingProtocols {
		w.begun = true
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write begins the answer.
func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// WriteString begins the answer, without a copy of the string where w can.
func (w *writer) WriteString(s string) (int, error) {
	w.begun = true
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom lets the system copy a file, where w can.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.begun = w.begun || n > 0
	return n, err
}

// FlushError is for http.ResponseController, which asks for it first.
func (w *writer) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.begun = w.begun || err == nil
	return err
}

type flusher struct{ w *writer }

// Flush implements http.Flusher.
func (f flusher) Flush() { _ = f.w.FlushError() }

type hijacker struct{ w *writer }

// Hijack implements http.Hijacker. The connection is the handler's from then on.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.w.ResponseWriter).Hijack()
	h.w.begun = h.w.begun || err == nil
	return conn, rw, err
}
