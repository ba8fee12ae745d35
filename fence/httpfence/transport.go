// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/fence"
)

// Transport sends the token with every request whose context carries one. The
// zero value sends fence.Innermost, whatever its lock: that of the lease that was
// taken last, or of the request that is being served. Name and token of a lock,
// and its holder, are of use to a stranger, who can replay them: after a redirect
// to another host they are not sent along, and Hosts restricts them further.
type Transport struct {
	// Base does the work; http.DefaultTransport if nil.
	Base http.RoundTripper
	// Lock returns which lock's token a request needs. A request that needs one
	// and has none is not sent. If nil, or if it returns an empty name,
	// fence.Innermost goes along, if there is any.
	Lock func(*http.Request) string
	// Hosts are the hosts that get the token, also after a redirect: "shelf.example"
	// with any port, or "shelf.example:8443" with that one. A request to another
	// host is sent without the token, or not at all if it needs one. If empty, all
	// hosts that the program calls get it, and no host that it is redirected to.
	Hosts []string
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	lock := ""
	if t.Lock != nil {
		lock = t.Lock(r)
	}
	m, err := fence.Innermost(r.Context())
	if lock != "" {
		m, err = fence.FromContext(r.Context(), lock)
	}
	trusted := t.trusts(r)
	if err == nil && !trusted && lock != "" {
		err = fmt.Errorf("httpfence: %s is not sent to %s; a host that may have it after a redirect must be in Transport.Hosts", m, r.URL.Host)
	}
	switch {
	case err == nil && !trusted:
		// A client may copy the header from one request to the next.
		if r.Header.Get(Header) != "" {
			r = r.Clone(r.Context())
			r.Header.Del(Header)
		}
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

// trusts reports whether the host of a request may have the token.
func (t *Transport) trusts(r *http.Request) bool {
	if len(t.Hosts) > 0 {
		return slices.ContainsFunc(t.Hosts, func(h string) bool {
			return strings.EqualFold(h, r.URL.Host) || strings.EqualFold(h, r.URL.Hostname())
		})
	}
	// net/http leaves the response that led here in a request that it makes for a
	// redirect. A chain that comes back was led by a stranger, too.
	for at := r; at.Response != nil && at.Response.Request != nil; at = at.Response.Request {
		before := at.Response.Request.URL
		if before.Scheme != r.URL.Scheme || !strings.EqualFold(before.Host, r.URL.Host) {
			return false
		}
	}
	return true
}

// sendOnce keeps net/http from resending a request after a lost reply, as it does
// with an idempotency key: the second request could meet the fence of a holder that
// entered in between, and what the first did would be reported as refused. net/http
// looks for the key under its canonical name only, and a service ignores the case of
// names. For a request without a body there is no other way to prevent it.
func sendOnce(h http.Header) {
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[key]; ok {
			delete(h, key)
			h[strings.ToLower(key)] = values
		}
	}
}

// Error returns the refusal that a response stands for: an error that wraps
// fence.ErrStale, fence.ErrNoToken or fence.ErrWrongLock, or nil if the response
// is not a refusal. It does not read the body.
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
