// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/internal/must"
)

// someHandle is a session as any client can make one.
func (g *guarded) someHandle() string {
	h, err := leases.NewHandle(2*time.Second, "")
	must.OK(g, err)
	return h.Text()
}

// lockCalls: calls that take locks, without proof, without the right, from other sites, or of a wrong form.
func (g *guarded) lockCalls() (all []attack) {
	session := g.someHandle()
	lease := fmt.Sprintf(`"id":"1","lock":%q,"token":%q`, hidden, g.secret)
	calls := map[string]string{
		"/v1/session": `{}`,
		"/v1/acquire": fmt.Sprintf(`{"session":%q,"id":"1","lock":%q}`, session, hidden),
		"/v1/renew":   fmt.Sprintf(`{"session":%q,"leases":[{%s}]}`, session, lease),
		"/v1/release": fmt.Sprintf(`{"session":%q,%s,"moved":true}`, session, lease),
		"/v1/end":     fmt.Sprintf(`{"session":%q,"leases":[{%s}]}`, session, lease),
	}
	post := func(what, path, body string, headers ...string) {
		all = append(all, attack{what + " " + path, request("POST", path, body, append(headers, "Content-Type: application/json")...)})
	}
	for path, body := range calls {
		for _, proof := range []string{"X: y", "Authorization: Bearer " + session, "Authorization: Bearer null", "Cookie: session=" + session, "X-Forwarded-User: taker"} {
			post("no proof "+proof, path, body, proof)
		}
		for _, site := range []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
			post("another site "+site, path, body, site, g.bearer("taker"))
		}
		post("a form", path, body, g.bearer("taker"), "Content-Encoding: gzip")
		all = append(all, attack{"text " + path, request("POST", path, body, g.bearer("taker"), "Content-Type: text/plain")},
			attack{"GET " + path, request("GET", path, "", g.bearer("taker"))}, attack{"query " + path, request("POST", path+"?session="+session, body, g.bearer("taker"), "Content-Type: application/json")})
		if path == "/v1/session" {
			continue
		}
		for _, user := range []string{"taker", "thief", "viewer", "admin", "orders", "blind", "none", "gateway"} {
			post("wrong right of "+user, path, body, g.bearer(user))
		}
		for _, bad := range []string{"", "fls_", "null", session[:len(session)-4], session + "AA", g.tokens["admin"], strings.Repeat("f", 9000)} {
			post("session "+bad[:min(len(bad), 9)], path, strings.Replace(strings.ReplaceAll(body, session, bad), hidden, "orders/9", 1), g.bearer("taker"))
		}
	}
	return append(all, g.lockForms(session)...)
}

// lockForms: bodies that have the right and not the form.
func (g *guarded) lockForms(session string) (all []attack) {
	leases := strings.Repeat(`{"id":"1","lock":"orders/1","token":"1"},`, leases.MaxLeases+1)
	for path, bodies := range map[string][]string{
		"/v1/session": {`{"ttl_ms":1}`, `{"ttl_ms":-1}`, `{"ttl_ms":99999999999}`, `{"ttl_ms":9223372036854775807}`, `{"owner":"a\u0000b"}`, `{"owner":"` + strings.Repeat("a", 101) + `"}`, `[]`, `{"user":"admin"}`},
		"/v1/acquire": {`{"id":"","lock":"orders/9"}`, `{"id":"` + strings.Repeat("a", 65) + `","lock":"orders/9"}`, `{"id":"1","lock":""}`, `{"id":"1","lock":"orders/9","wait_ms":20001}`,
			`{"id":"1","lock":"orders/9","wait_ms":-1}`, `{"id":"1","lock":"orders/9","reason":"` + strings.Repeat("a", 501) + `"}`, `{"id":"1","lock":"orders/` + strings.Repeat("a", 600) + `"}`, `{"id":1,"lock":"orders/9"}`,
			`{"id":"1","lock":"orders/\u0000"}`, `{"id":"1","lock":"orders/9","user":"admin"}`, `{"id":"1","lock":"orders/9","lock":"` + hidden + `"}`},
		"/v1/renew":   {`{"leases":[` + leases[:len(leases)-1] + `]}`, `{"leases":[{"id":"1","lock":"orders/1","token":1}]}`, `{"leases":[{"id":"1","lock":"` + hidden + `","token":"1"}]}`, `{"leases":{}}`},
		"/v1/release": {`{"id":"1","lock":"orders/1","token":"x"}`, `{"id":"1","lock":"orders/1","token":5}`, `{"id":"1","token":"5"}`},
		"/v1/end":     {`{"leases":[{"id":"1","lock":"` + hidden + `","token":"1"}]}`, strings.Repeat(" ", maxLockBody) + `{}`},
	} {
		for _, body := range bodies {
			if path != "/v1/session" && strings.HasPrefix(body, "{") {
				body = fmt.Sprintf(`{"session":%q,`, session) + body[1:]
			}
			all = append(all, attack{path + " " + body[:min(len(body), 120)], request("POST", path, body, g.bearer("taker"), "Content-Type: application/json")})
		}
	}
	return all
}

// stolen counts what a user of the same rights can do with the handle, the ids and the tokens of another one.
func (g *guarded) stolen() (found int) {
	call := func(user, path, body string, v any) {
		status, text := g.send(request("POST", path, body, g.bearer(user), "Content-Type: application/json"))
		if status != http.StatusOK || json.Unmarshal([]byte(text), v) != nil {
			g.Fatalf("%s as %s: %d %s", path, user, status, text)
		}
	}
	bad := func(what string, got any) {
		found++
		g.Errorf("%s: %+v", what, got)
	}
	session, lock := g.someHandle(), "orders/stolen"
	var held, got leases.Answer
	acquire := fmt.Sprintf(`{"session":%q,"id":"1","lock":%q}`, session, lock)
	call("taker", "/v1/acquire", acquire, &held)
	lease := fmt.Sprintf(`"id":"1","lock":%q,"token":"%v","moved":true`, lock, held.Token)
	if call("thief", "/v1/acquire", acquire, &got); got.State != leases.Busy || got.Token != 0 {
		bad("another user acquired with the handle", got)
	}
	var list leaseList
	if call("thief", "/v1/renew", fmt.Sprintf(`{"session":%q,"leases":[{%s}]}`, session, lease), &list); list.Leases[0].State != leases.Lost || list.Leases[0].Token != 0 {
		bad("another user renewed with the handle", list)
	}
	call("thief", "/v1/release", fmt.Sprintf(`{"session":%q,%s}`, session, lease), &got)
	call("thief", "/v1/end", fmt.Sprintf(`{"session":%q,"leases":[{%s}]}`, session, lease), &list)
	call("taker", "/v1/release", fmt.Sprintf(`{"session":%q,%s}`, g.someHandle(), lease), &got) // its own, without the handle
	if call("taker", "/v1/renew", fmt.Sprintf(`{"session":%q,"leases":[{%s}]}`, session, lease), &list); list.Leases[0].State != leases.Held || list.Leases[0].Token != held.Token {
		bad("another user released with the handle", list)
	}
	call("taker", "/v1/release", fmt.Sprintf(`{"session":%q,%s}`, session, lease), &got)
	if call("taker", "/v1/acquire", acquire, &got); got.State != leases.Released || got.Token != 0 {
		bad("a replayed acquisition", got)
	}
	call("taker", "/v1/end", fmt.Sprintf(`{"session":%q,"leases":[]}`, session), &list)
	if status, text := g.send(request("POST", "/v1/acquire", strings.Replace(acquire, `"1"`, `"2"`, 1), g.bearer("taker"), "Content-Type: application/json")); status != http.StatusConflict {
		bad("an acquisition after the end", text)
	}
	if st, err := g.server.cfg.Client.Inspect(g.Context(), lock); err != nil || len(st.Holders) > 0 {
		bad("a lock was left", st)
	}
	return found
}
