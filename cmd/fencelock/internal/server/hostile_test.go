// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// guarded is a server with users, and a lock that most of them must not reach.
type guarded struct {
	*world
	tokens map[string]string
	secret string // the token of the holder of billing/secret, and in a state
}

const hidden = "billing/secret"

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{tokens: map[string]string{}}
	text := ""
	for _, u := range []struct{ name, rights string }{
		{"admin", `{"prefix":"","may":["see","force-unlock"]}`}, {"viewer", `{"prefix":"","may":["see"]}`},
		{"orders", `{"prefix":"orders/","may":["see","force-unlock"]}`}, {"blind", `{"prefix":"","may":["force-unlock"]}`},
		{"none", ``}, {"gateway", ``}, {"taker", `{"prefix":"orders/","may":["take"]}`}, {"thief", `{"prefix":"orders/","may":["take"]}`},
	} {
		token, hash := access.NewToken()
		g.tokens[u.name] = token
		text += fmt.Sprintf(`,{"name":%q,"tokens":[%q],"rights":[%s]}`, u.name, hash, u.rights)
	}
	policy, err := access.Parse([]byte(`{"users":[` + text[1:] + `],"proxy":{"header":"X-Forwarded-User","user":"gateway"}}`))
	must.OK(t, err)
	g.world = newWorld(t, memstore.New(nil), func(cfg *Config) {
		unlimited(cfg)
		cfg.limits.failures, cfg.limits.breaks = newLimiter(1e9, 1e9), newLimiter(1e9, 1e9)
		cfg.Policy = func() *access.Policy { return policy }
	})
	g.secret = g.hold("ann", hidden)[0].Token().String()
	g.hold("bob", "orders/1")
	g.until("the locks are seen", func() bool {
		var l lockList
		g.get("/v1/locks", &l, g.as("admin"))
		return l.Total == 2
	})
	return g
}

// as signs a request with the token of a user.
func (g *guarded) as(user string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+g.tokens[user]) }
}

// attack is a request as it goes over the wire, and what it tries.
type attack struct{ what, wire string }

// request writes a request; headers are lines.
func request(method, path, body string, headers ...string) string {
	lines := []string{method + " " + path + " HTTP/1.1"}
	if !strings.Contains(strings.Join(headers, "\n"), "Host:") {
		lines = append(lines, "Host: localhost")
	}
	if body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return strings.Join(append(append(lines, headers...), "Connection: close", "", body), "\r\n")
}

// breaking is a request that would break the hidden lock.
func (g *guarded) breaking(headers ...string) string {
	body := fmt.Sprintf(`{"lock":%q,"token":%q,"reason":"attack"}`, hidden, g.secret)
	return request("POST", "/v1/force-unlock", body, append(headers, "Content-Type: application/json")...)
}

func (g *guarded) bearer(user string) string { return "Authorization: Bearer " + g.tokens[user] }

// withoutProof: no token, or one that is not right.
func (g *guarded) withoutProof() (all []attack) {
	admin := g.tokens["admin"]
	hash := access.HashOf(admin)
	proofs := [][]string{
		nil, {"Authorization:"}, {"Authorization: Bearer"}, {"Authorization: Bearer "}, {"Authorization: Bearer null"},
		{"Authorization: Bearer " + hash}, {"Authorization: Bearer " + strings.TrimPrefix(hash, "sha256:")}, {"Authorization: Bearer " + admin[:len(admin)-1]},
		{"Authorization: Bearer " + admin + "A"}, {"Authorization: Bearer " + strings.ToUpper(admin)}, {"Authorization: Basic YWRtaW46YWRtaW4="},
		{"Authorization: Basic " + admin}, {"Authorization: " + admin}, {"Authorization: Bearer " + admin + ", Bearer " + admin},
		{"Authorization: Bearer " + admin, "Authorization: Bearer x"}, {"Authorization: Bearer x", "Authorization: Bearer " + admin}, {"Cookie: token=" + admin},
		{"X-Api-Key: " + admin}, {"Proxy-Authorization: Bearer " + admin}, {"X-Forwarded-User: admin"}, {"Authorization: Bearer fl_" + strings.Repeat("A", 43)},
		{"Authorization: Bearer " + strings.Repeat("A", 5000)}, {"Authorization_: Bearer " + admin}, {"Sec-Fetch-Site: same-origin", "Origin: http://localhost"},
	}
	for i, proof := range proofs {
		for _, path := range []string{"/v1/locks", "/v1/lock?name=" + hidden, "/v1/graph", "/v1/sessions", "/v1/events", "/v1/store", "/v1/me", "/metrics"} {
			all = append(all, attack{fmt.Sprint("no proof ", i, " ", path), request("GET", path, "", proof...)})
		}
		all = append(all, attack{fmt.Sprint("no proof ", i, " break"), g.breaking(proof...)})
	}
	for _, path := range []string{"/v1/locks?token=" + admin, "/v1/locks?access_token=" + admin, "/v1/locks?Authorization=Bearer%20" + admin} {
		all = append(all, attack{"token in the query", request("GET", path, "")})
	}
	return all
}

// wrongRights: a user that reaches for what the file of users does not give it.
func (g *guarded) wrongRights() (all []attack) {
	for _, name := range []string{hidden, "billing/", "orders", "ORDERS/1", " orders/1", "./orders/1", "/orders/1", "billing/secret\x00orders/", "", "order%73/../" + hidden} {
		path := "/v1/lock?name=" + url.QueryEscape(name)
		all = append(all, attack{"see " + name, request("GET", path, "", g.bearer("orders"))})
	}
	all = append(all, attack{"see by two names", request("GET", "/v1/lock?name=orders/1&name="+hidden, "", g.bearer("orders"))},
		attack{"see by a semicolon", request("GET", "/v1/lock?name=orders/1;name="+hidden, "", g.bearer("orders"))})
	for _, user := range []string{"viewer", "orders", "blind", "none", "gateway"} {
		all = append(all, attack{"break as " + user, g.breaking(g.bearer(user))})
	}
	for _, path := range []string{"/v1/lock?name=" + hidden, "/v1/lock?name=orders/1"} {
		all = append(all, attack{"see as none", request("GET", path, "", g.bearer("none"))}, attack{"see as blind", request("GET", path, "", g.bearer("blind"))})
	}
	for _, body := range []string{
		`{"lock":"orders/1","lock":"` + hidden + `","token":"` + g.secret + `","reason":"x"}`, `{"Lock":"` + hidden + `","token":"` + g.secret + `","reason":"x"}`,
		`{"lock":"` + hidden + `","token":` + g.secret + `,"reason":"x"}`, `[{"lock":"` + hidden + `"}]`, `{"lock":"orders/1","token":"1","reason":"x","by":"admin"}`,
		`{"lock":"orders/1","token":"1","reason":"x"}{"lock":"` + hidden + `"}`, `{"lock":"orders/1","token":"0","reason":"x"}`, `{"lock":"orders/1","token":"-1","reason":"x"}`,
		`{"lock":"orders/1","token":"1","reason":" "}`, `{"lock":"","token":"1","reason":"x"}`, `null`, `""`, `{`, "",
	} {
		all = append(all, attack{"body " + body, request("POST", "/v1/force-unlock", body, g.bearer("orders"), "Content-Type: application/json")})
	}
	return all
}

// otherSites: what a browser sends for a page of another site, with a proof that would do.
func (g *guarded) otherSites() (all []attack) {
	proof := g.bearer("admin")
	for _, headers := range [][]string{
		{"Origin: https://evil.example"}, {"Origin: null"}, {"Origin: http://localhost.evil.example"}, {"Origin: http://localhost:1"}, {"Sec-Fetch-Site: cross-site"},
		{"Sec-Fetch-Site: same-site"}, {"Sec-Fetch-Site: cross-site", "Origin: http://localhost"}, {"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"},
	} {
		all = append(all, attack{"another site breaks: " + strings.Join(headers, ", "), g.breaking(append(headers, proof)...)})
		if strings.HasPrefix(headers[0], "Sec") {
			all = append(all, attack{"another site reads: " + strings.Join(headers, ", "), request("GET", "/v1/locks", "", append(headers, proof)...)})
		}
	}
	body := fmt.Sprintf(`{"lock":%q,"token":%q,"reason":"attack"}`, hidden, g.secret)
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/json-patch+json", "text/json", "application/jsonx"} {
		all = append(all, attack{"a form: " + kind, request("POST", "/v1/force-unlock", body, proof, "Content-Type: "+kind)})
	}
	return append(all, attack{"encoded", request("POST", "/v1/force-unlock", body, proof, "Content-Type: application/json", "Content-Encoding: gzip")})
}

// smuggled: headers that a proxy and the server may read differently.
func (g *guarded) smuggled() (all []attack) {
	gateway := g.bearer("gateway")
	for _, headers := range [][]string{
		{g.bearer("viewer"), "X-Forwarded-User: admin"}, {gateway, "X-Forwarded-User: admin", "X-Forwarded-User: viewer"}, {gateway, "X-Forwarded-User: viewer, admin"},
		{gateway, "X-Forwarded-User: gateway"}, {gateway, "X-Forwarded-User: root"}, {gateway, "X-Forwarded-User:"}, {gateway, "X_Forwarded_User: admin"},
		{gateway, "X-Forwarded-User: viewer"}, {gateway, "X-Forwarded-User: ADMIN"}, {gateway, "X-Forwarded-User: admin\x0b"}, {gateway, "X-Forwarded-User : admin"},
		{gateway, " X-Forwarded-User: admin"}, {gateway, "X-Forwarded-Email: admin"}, {gateway, "Forwarded: for=admin"}, {gateway, "X-Remote-User: admin"},
	} {
		all = append(all, attack{"named by " + strings.Join(headers[1:], ", "), g.breaking(headers...)})
	}
	for _, h := range []string{"X-Original-URL: /v1/locks", "X-Rewrite-URL: /v1/locks", "X-Forwarded-Prefix: /v1/locks", "X-HTTP-Method-Override: POST", "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1"} {
		all = append(all, attack{h, request("GET", "/v1/me", "", h)})
	}
	inner := g.breaking()
	all = append(all,
		attack{"length and chunks", request("POST", "/v1/force-unlock", inner, "Transfer-Encoding: chunked")},
		attack{"chunks twice", "POST /v1/force-unlock HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nConnection: close\r\n\r\n0\r\n\r\n" + inner},
		attack{"two lengths", "POST /v1/force-unlock HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" + inner},
		attack{"a length with a sign", "POST /v1/force-unlock HTTP/1.1\r\nHost: localhost\r\nContent-Length: +0\r\nConnection: close\r\n\r\n" + inner},
		attack{"a folded header", "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nX: a\r\n " + g.bearer("none") + "\r\nConnection: close\r\n\r\n"},
		attack{"two hosts", "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n"},
		attack{"no host", "GET /v1/locks HTTP/1.1\r\nConnection: close\r\n\r\n"},
		attack{"version 0.9", "GET /v1/locks\r\n\r\n"})
	return all
}

// crooked: other ways to write a path or a method.
func (g *guarded) crooked() (all []attack) {
	for _, path := range []string{
		"//v1/locks", "/v1//locks", "/v1/./locks", "/v1/../v1/locks", "/%76%31/locks", "/v1/locks/", "/v1/locks%00", "/v1/locks%20", "/V1/LOCKS", "/v1/locks;a=b", "/v1/locks%3f",
		"/console/../v1/locks", "/console/..%2fv1%2flocks", "/console/%2e%2e/v1/locks", "/healthz/../v1/locks", "/healthz%2f..%2fv1%2flocks", "http://localhost/v1/locks",
		"http://evil/v1/locks", "*", "/v1\\locks", "/console/", "/console/../openapi.yaml", "/console/../../../../etc/passwd", "/console/%2e%2e%2f%2e%2e%2fetc/passwd", "v1/locks", "/.git/config", "/debug/pprof/",
	} {
		all = append(all, attack{"path " + path, request("GET", path, "", g.bearer("none"))})
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREAK", "get", "POST"} {
		all = append(all, attack{"method " + method, request(method, "/v1/locks", "", g.bearer("admin"))}, attack{"method " + method, request(method+"X", "/v1/force-unlock", "", g.bearer("admin"))})
	}
	return all
}

// huge: more than the server has to accept from a user that may break.
func (g *guarded) huge() (all []attack) {
	big := strings.Repeat("a", 100<<10)
	for what, body := range map[string]string{
		"reason": fmt.Sprintf(`{"lock":"orders/1","token":"1","reason":%q}`, big), "name": fmt.Sprintf(`{"lock":%q,"token":"1","reason":"x"}`, "orders/"+big),
		"depth": strings.Repeat("[", 100<<10), "spaces": strings.Repeat(" ", 1<<20) + "{}", "long reason": fmt.Sprintf(`{"lock":"orders/1","token":"1","reason":%q}`, big[:maxReason+1]),
	} {
		all = append(all, attack{"huge " + what, request("POST", "/v1/force-unlock", body, g.bearer("orders"), "Content-Type: application/json")})
	}
	return append(all, attack{"huge header", request("GET", "/v1/locks", "", "X: "+big, g.bearer("none"))}, attack{"huge query", request("GET", "/v1/locks?text="+big, "", g.bearer("none"))},
		attack{"many headers", request("GET", "/v1/locks", "", strings.Repeat("X: a\r\n", 20000)+"Y: b")})
}

// send sends bytes and returns the status and the body of the answer; the status is 0 if the server
// closed the connection instead.
func (g *guarded) send(wire string) (int, string) {
	conn, err := net.Dial("tcp", g.web.Listener.Addr().String())
	must.OK(g, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	go func() { _, _ = io.WriteString(conn, wire) }() // the server may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text)
}

// TestHostileRequestsDoNotPass: no request without the right proof and the right on the lock
// is answered with anything of the store, or breaks a lock. The same request with both breaks it.
func TestHostileRequestsDoNotPass(t *testing.T) {
	g := newGuarded(t)
	var all []attack
	for _, kind := range []func() []attack{g.withoutProof, g.wrongRights, g.otherSites, g.smuggled, g.crooked, g.huge, g.lockCalls} {
		all = append(all, kind()...)
	}
	passed := 0
	for _, a := range all {
		status, body := g.send(a.wire)
		if status >= 200 && status < 400 || strings.Contains(body, `"ann"`) || strings.Contains(body, g.secret) {
			passed++
			t.Errorf("%s: %d %.200s", a.what, status, body)
		}
	}
	passed += g.leaks() + g.slow() + g.stolen()
	if st, err := g.server.cfg.Client.Inspect(t.Context(), hidden); err != nil || len(st.Holders) != 1 || st.Holders[0].Token.String() != g.secret {
		passed++
		t.Errorf("the lock was broken: %+v, %v", st, err)
	}
	figure.Print("serve-unauthorized-passed", passed, figure.Exactly(0))
	g.rightOnesPass()
	if n := len(all) + 10; n < 200 {
		t.Errorf("only %d requests", n)
	}
	t.Logf("%d requests", len(all)+10)
}

// rightOnesPass fails the test if the requests above fail for another reason than what they try: with a proof and a
// right each is answered.
func (g *guarded) rightOnesPass() {
	g.Helper()
	admin := g.bearer("admin")
	if status, body := g.send(request("GET", "/v1/lock?name="+hidden, "", admin)); status != http.StatusOK || !strings.Contains(body, g.secret) {
		g.Errorf("the admin reads the lock: %d %.200s", status, body)
	}
	take := fmt.Sprintf(`{"session":%q,"id":"1","lock":"orders/9"}`, g.someHandle())
	if status, body := g.send(request("POST", "/v1/acquire", take, g.bearer("taker"), "Content-Type: application/json")); status != http.StatusOK || !strings.Contains(body, `"held"`) {
		g.Errorf("the taker takes a lock: %d %.200s", status, body)
	}
	if status, body := g.send(g.breaking(admin)); status != http.StatusOK {
		g.Errorf("the admin breaks the lock: %d %.200s", status, body)
	}
	if st, err := g.server.cfg.Client.Inspect(g.Context(), hidden); err != nil || len(st.Holders) > 0 {
		g.Errorf("the admin broke the lock, and it is %+v, %v", st, err)
	}
}

// leaks counts answers to a user of one prefix, or of none, that have something of another.
func (g *guarded) leaks() (found int) {
	for _, user := range []string{"orders", "none", "blind"} {
		for _, path := range []string{"/v1/locks?limit=500", "/v1/graph", "/v1/sessions"} {
			_, body := g.send(request("GET", path, "", g.bearer(user)))
			if strings.Contains(body, "billing") || strings.Contains(body, `"ann"`) || user != "orders" && strings.Contains(body, `"bob"`) {
				found++
				g.Errorf("%s as %s: %s", path, user, body)
			}
		}
	}
	v := g.watch("", g.as("orders"))
	l := g.hold("ann", "billing/2", "orders/2")
	for {
		e := v.next()
		if strings.Contains(e.data, "billing") {
			found++
			g.Errorf("the stream has %s", e.data)
		}
		if e.kind == "" || strings.Contains(e.data, "orders/2") {
			v.stop()
			_, _ = l, e
			return found
		}
	}
}

// slow counts clients that keep a connection although they send nothing, or never end.
func (g *guarded) slow() (found int) {
	for _, wire := range []string{"", "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nX: ", "POST /v1/force-unlock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n" + g.bearer("orders") + "\r\n\r\n{"} {
		conn, err := net.Dial("tcp", g.web.Listener.Addr().String())
		must.OK(g, err)
		_, _ = io.WriteString(conn, wire)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		text, err := io.ReadAll(conn) // until the server closes it
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() || strings.Contains(string(text), " 200 ") {
			found++
			g.Errorf("%q: %s, %v", wire, text, err)
		}
		_ = conn.Close()
	}
	return found
}

// TestLocalServerAnswersToLocalhost: a name of another site that points at a loopback address
// makes a page of that site one of ours (DNS rebinding); such names are rejected. Without
// users no lock can be broken.
func TestLocalServerAnswersToLocalhost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	l := w.hold("ann", "a")[0]
	for host, want := range map[string]int{
		"localhost": 200, "localhost:7420": 200, "127.0.0.1:1": 200, "[::1]:7420": 200, "LocalHost": 200, "127.8.8.8": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "192.168.0.1": 403, "[::]": 403, "0.0.0.0:7420": 403, "evil@localhost": 403,
	} {
		if status := w.get("/v1/locks", nil, func(r *http.Request) { r.Host = host }); status != want {
			t.Errorf("%s: got %d, want %d", host, status, want)
		}
	}
	body := `{"lock":"a","token":"` + l.Token().String() + `","reason":"x"}`
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.web.URL+"/v1/force-unlock", strings.NewReader(body))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	var denied struct{ Detail string }
	if status := w.do(req, &denied); status != http.StatusForbidden || !strings.Contains(denied.Detail, "start it with --users") {
		t.Errorf("break without users: %d %q", status, denied.Detail)
	}
}
