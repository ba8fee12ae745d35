// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fencelock/fencelock/fence"
)

// Transport sends the token with every request whose context carries one. The
// zero value sends fence.Innermost, whatever its lock: that of the lease that was
// taken last, or of the request that is being served.
type Transport struct {
	// Base does the work; http.DefaultTransport if nil.
	Base http.RoundTripper
	// Lock returns which lock's token a request needs. A request that needs one
	// and has none is not sent. If nil, or if it returns an empty name,
	// fence.Innermost goes along, if there is any.
	Lock func(*http.Request) string
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	lock := ""
	if t.Lock != nil {
		lock = t.Lock(r)
	}
	m, err := fence.Innermost(r.Context())
	if lock != "" {
		m, err = fence.From(r.Context(), lock)
	}
	switch {
	case err == nil:
		r = r.Clone(r.Context()) // a transport must not change the request
		r.Header.Set(Header, Format(m))
		sendOnce(r.Header)
	case lock != "":
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(r)
}

// sendOnce keeps net/http from sending a request again after a lost reply, as it
// does with an idempotency key: the second could meet the fence of a holder that
// came in between, and what the first did would be reported as refused. It looks
// for the key under its canonical name only, and to the service any case is the
// same. Without a body there is no other way to tell it.
func sendOnce(h http.Header) {
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[key]; ok {
			delete(h, key)
			h[strings.ToLower(key)] = values
		}
	}
}

// Error returns the refusal that a response stands for: an error that wraps
// fence.ErrStale, fence.ErrNoToken or fence.ErrWrongLock, or nil if it is none.
// The body is left alone.
func Error(resp *http.Response) error {
	var given fence.Mark
	if resp.Request != nil {
		given, _ = Parse(resp.Request.Header.Get(Header)) // ours, from RoundTrip
	}
	switch resp.Header.Get(refusalHeader) {
	case "stale":
		newer, _ := Parse(resp.Header.Get(Header))
		return &fence.StaleError{Given: given, Newer: newer}
	case "no-token":
		return fmt.Errorf("%w: refused by the service", fence.ErrNoToken)
	case "wrong-lock":
		return fmt.Errorf("%w: %v, refused by the service", fence.ErrWrongLock, given)
	}
	return nil
}
