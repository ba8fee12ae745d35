// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/driver"
)

// ServeHTTP judges a request and answers it. The order is: what is asked for, by name and
// form; whether it comes from a page of another site; who asks; how often; and, in the
// handler, whether this caller has the right on this lock.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	route, p := s.find(r)
	if p == nil {
		p = s.admit(w, r, route)
	}
	if p != nil {
		p.write(w)
	}
}

// secure sets what a browser must not do with any answer.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// find returns the route of a request. A path is compared as it was sent: one that needs
// decoding is not a path of this server.
func (s *Server) find(r *http.Request) (*route, *problem) {
	methods := s.routes[r.URL.Path]
	if methods == nil || r.URL.EscapedPath() != r.URL.Path || r.URL.Host != "" {
		return nil, failed(http.StatusNotFound, "path", "unknown path; /openapi.yaml lists the calls")
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	route := methods[method]
	if route == nil {
		return nil, failed(http.StatusMethodNotAllowed, "method", "%s does not take %s", r.URL.Path, r.Method)
	}
	return route, nil
}

// admit answers a request if it may be answered.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, route *route) *problem {
	query, p := route.parse(r.URL.RawQuery)
	if p != nil {
		return p
	}
	c := &call{Request: r, query: query, received: time.Now()}
	if !route.public {
		if p := s.sameSite(r); p != nil {
			return s.deny(c, p)
		}
		if p := s.authenticate(w, c, route); p != nil {
			return p
		}
		if s.cfg.Policy != nil && !route.stream { // without users all callers have one name
			open, most := s.callsOf(route)
			if !open.enter(c.caller.Name, most) {
				return s.tooMany(w, c, s.limits.of(route), c.caller.Name)
			}
			defer open.leave(c.caller.Name)
		}
	}
	if r.Method == http.MethodHead && route.stream {
		return nil
	}
	err := route.serve(s, w, c)
	if err == nil {
		return nil
	}
	if !errors.As(err, &p) {
		s.cfg.Logger.Error("a call failed", "call", route.path, "error", err)
		p = failed(http.StatusInternalServerError, "internal", "the server failed; its log has the reason")
	}
	if p.Status == http.StatusForbidden {
		return s.deny(c, p)
	}
	return p
}

// sameSite rejects what a page of another site makes a browser send. A program sends none
// of these headers.
func (s *Server) sameSite(r *http.Request) *problem {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return failed(http.StatusForbidden, "origin", "the request comes from a page of another site")
	}
	if err := s.origins.Check(r); err != nil {
		return failed(http.StatusForbidden, "origin", "the request comes from a page of another site")
	}
	if s.cfg.Policy == nil && !localHost(r.Host) {
		// A name that another site lets point at this address would make its page one of
		// ours.
		return failed(http.StatusForbidden, "host", "without users the server answers to localhost only, not to %q", r.Host)
	}
	return nil
}

// localHost reports whether the Host of a request names this machine.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// identify returns who makes a request.
func (s *Server) identify(r *http.Request) (access.Caller, error) {
	if s.cfg.Policy == nil {
		return access.Local, nil
	}
	return s.cfg.Policy().Identify(r)
}

// printable reports whether the store can keep a text as a part of a name.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// brief cuts a text that a client chose, because a record of a holder is small.
func brief(text string, most int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), most)])
}

// authenticate finds out who calls, and whether too often.
func (s *Server) authenticate(w http.ResponseWriter, c *call, route *route) *problem {
	often := s.limits.of(route)
	now := time.Now()
	caller, err := s.identify(c.Request)
	if err != nil {
		// A right token passes whatever others at the same address do: tokens cannot be
		// guessed, so the limit is for the audit log.
		if remote := remoteKey(c.RemoteAddr); !s.limits.failures.allow(remote, now) {
			return s.tooMany(w, c, s.limits.failures, remote)
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="fencelock"`)
		s.audit(c, c.denied(http.StatusUnauthorized, err.Error()))
		return failed(http.StatusUnauthorized, "identity", "who are you? Send a token of the server's file of users as Authorization: Bearer TOKEN, or a client certificate")
	}
	c.caller = caller
	if !often.allow(caller.Name, now) {
		return s.tooMany(w, c, often, caller.Name)
	}
	return nil
}

// tooMany is the answer to a caller above a limit. Most of them have no line in the audit
// log, which would otherwise grow as fast as anyone can send.
func (s *Server) tooMany(w http.ResponseWriter, c *call, l *limiter, key string) *problem {
	w.Header().Set("Retry-After", "1")
	p := failed(http.StatusTooManyRequests, "rate", "too many calls; try again later")
	s.denyQuietly(c, l, key, c.denied(p.Status, p.Detail))
	return p
}

// denyQuietly writes a denial of a caller above a limit to the audit log, or leaves it to a later line.
func (s *Server) denyQuietly(c *call, l *limiter, key string, e audit.Entry) {
	if line, more := l.note(key, c.entry(e)); line {
		e.More = more
		s.audit(c, e)
	}
}

// denied is the entry of a denial, with what the call is about as far as it was read.
func (c *call) denied(status int, why string) audit.Entry {
	return audit.Entry{Kind: audit.Denied, Status: status, Error: why, Lock: c.about.lock, Token: c.about.token, Reason: brief(c.about.reason, maxReason)}
}

// FlushAudit writes what the audit log has not got yet of denied calls that share a line. It is for the end of the process.
func (s *Server) FlushAudit() { s.noteDenied(time.Now(), true) }

// noteDenied writes a line for each caller that was denied without one, unless its last line is a moment old; or for all of them.
func (s *Server) noteDenied(now time.Time, all bool) {
	for _, l := range []*limiter{s.limits.reads, s.limits.locks, s.limits.breaks, s.limits.failures} {
		for _, e := range l.due(now, all) {
			s.write(e)
		}
	}
}

// deny writes a denial to the audit log. The lines of a caller are limited whether it is known
// or not, because both can fill the disk.
func (s *Server) deny(c *call, p *problem) *problem {
	key := remoteKey(c.RemoteAddr)
	if c.caller.Name != "" {
		key = "user:" + c.caller.Name
	}
	e := c.denied(p.Status, p.Detail)
	if s.limits.failures.allow(key, time.Now()) {
		s.audit(c, e)
	} else {
		s.denyQuietly(c, s.limits.failures, key, e)
	}
	return p
}

// audit writes an entry about a call. It reports whether the entry was written.
func (s *Server) audit(c *call, e audit.Entry) bool { return s.write(c.entry(e)) }

// entry adds who makes the call, and when.
func (c *call) entry(e audit.Entry) audit.Entry {
	e.Time, e.Who, e.Remote = time.Now(), c.caller.Name, c.RemoteAddr
	e.Call = c.Method + " " + c.URL.Path
	return e
}

func (s *Server) write(e audit.Entry) bool {
	if err := s.cfg.Audit.Write(e); err != nil {
		s.cfg.Logger.Error("the audit log cannot be written; no lock is broken until it can", "error", err)
		return false
	}
	return true
}

// allowed reports why a caller may not do something with a lock, nil if it may. The answer
// is the same whether the lock exists or not.
func (s *Server) allowed(c *call, right access.Right, name string) error {
	if name == "" {
		return failed(http.StatusBadRequest, "name", "the name of the lock is missing: send it as lock in the body, or as ?name=NAME in the address")
	}
	if len(name) > driver.MaxNameBytes { // before the rights, because the answer to a denial repeats the name
		return failed(http.StatusBadRequest, "name", "a name has at most %d bytes, and this one has %d", driver.MaxNameBytes, len(name))
	}
	if !printable(name) {
		return failed(http.StatusBadRequest, "name", "a name is UTF-8 without control characters")
	}
	c.about.lock = name
	if !c.caller.May(right, name) {
		if s.cfg.Policy == nil {
			return failed(http.StatusForbidden, "right", "a server without users lets no caller %s locks: make users with fencelock serve token, and start it with --users", right)
		}
		return failed(http.StatusForbidden, "right", "%s has no right to %s %q; an operator gives it in the server's file of users", c.caller.Name, right, name)
	}
	return nil
}
