// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
)

// route is a call of the API or a file of the console.
type route struct {
	method, path string
	// params are the parameters of the query that the call takes.
	params []string
	// public needs no identity: it shows nothing of the store.
	public bool
	// stream lasts, and is limited by number and not by rate.
	stream bool
	// locks are taken by the call: it has its own limits, and it may wait.
	locks bool
	serve func(s *Server, w http.ResponseWriter, c *call) error
}

// apiRoutes are the calls that openapi.yaml describes.
func apiRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/me", serve: (*Server).me},
		{method: "GET", path: "/v1/locks", serve: (*Server).locks,
			params: []string{"prefix", "owner", "text", "older_than", "waited", "sort", "after", "offset", "limit"}},
		{method: "GET", path: "/v1/lock", params: []string{"name"}, serve: (*Server).lock},
		{method: "GET", path: "/v1/graph", serve: (*Server).graph},
		{method: "GET", path: "/v1/sessions", params: []string{"text", "offset", "limit"}, serve: (*Server).sessions},
		{method: "GET", path: "/v1/store", serve: (*Server).store},
		{method: "GET", path: "/v1/events", params: []string{"prefix"}, stream: true, serve: (*Server).events},
		{method: "POST", path: "/v1/force-unlock", serve: (*Server).breakLock},
		{method: "GET", path: "/metrics", serve: (*Server).metrics},
		{method: "POST", path: "/v1/session", locks: true, serve: (*Server).makeSession},
		{method: "POST", path: "/v1/acquire", locks: true, serve: (*Server).acquire},
		{method: "POST", path: "/v1/renew", locks: true, serve: (*Server).renew},
		{method: "POST", path: "/v1/release", locks: true, serve: (*Server).release},
		{method: "POST", path: "/v1/end", locks: true, serve: (*Server).end},
		{method: "GET", path: "/healthz", public: true, serve: (*Server).healthz},
		{method: "GET", path: "/readyz", public: true, serve: (*Server).readyz},
		{method: "GET", path: "/openapi.yaml", public: true, serve: (*Server).openapi},
	}
}

// call is a request that passed the guard.
type call struct {
	*http.Request
	caller   access.Caller
	query    url.Values
	received time.Time
	// about is what the call is about, for the audit log if it is denied: as far as it was read by then.
	about about
}

type about struct {
	lock, reason string
	token        fencelock.Token
}

// problem is an error for the caller, as RFC 9457 has it. Code is for programs.
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
	// retryAfter is the header of that name, if it is known.
	retryAfter time.Duration
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

func failed(status int, code, format string, args ...any) *problem {
	return &problem{Status: status, Code: code, Title: http.StatusText(status), Detail: fmt.Sprintf(format, args...)}
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// reply writes an answer.
func reply(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may be gone
	return nil
}

// parse checks the parameters of a query: each is known, and there once.
func (r *route) parse(raw string) (url.Values, *problem) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, failed(http.StatusBadRequest, "query", "the query cannot be read: %v", err)
	}
	for name, values := range query {
		if !slices.Contains(r.params, name) {
			return nil, failed(http.StatusBadRequest, "query", "unknown parameter %q; %s takes %q", name, r.path, r.params)
		}
		if len(values) > 1 {
			return nil, failed(http.StatusBadRequest, "query", "%s is there %d times; give it once", name, len(values))
		}
	}
	return query, nil
}

// number reads a parameter that is at least 0 and at most most.
func (c *call) number(name string, most, otherwise int) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, failed(http.StatusBadRequest, "query", "%s=%s: give a number from 0 to %d", name, text, most)
	}
	return n, nil
}

// duration reads a parameter such as 90s.
func (c *call) duration(name string) (time.Duration, error) {
	text := c.query.Get(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, failed(http.StatusBadRequest, "query", "%s=%s: give a time with its unit, such as 90s", name, text)
	}
	return d, nil
}

// flag reads a parameter that is true or false.
func (c *call) flag(name string) (bool, error) {
	switch c.query.Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, failed(http.StatusBadRequest, "query", "%s: give true or false", name)
}

func randomID() string { return rand.Text()[:8] }

// console has the files of the page as they are written: there is no build step.
//
//go:embed console
var console embed.FS

// staticRoutes are the files of the console. They show nothing of the store, so they need
// no identity: the page asks for a token itself.
func staticRoutes() []*route {
	files, err := console.ReadDir("console")
	if err != nil {
		panic(err) // it is embedded
	}
	routes := []*route{static("/", "console/index.html")}
	for _, f := range files {
		routes = append(routes, static("/console/"+f.Name(), "console/"+f.Name()))
	}
	return routes
}

func static(at, file string) *route {
	kind := mime.TypeByExtension(path.Ext(file))
	return &route{method: "GET", path: at, public: true, serve: func(_ *Server, w http.ResponseWriter, _ *call) error {
		text, err := console.ReadFile(file)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
		return nil
	}}
}
