// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"encoding/base64"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/tfstate"
)

const hiddenState = "billing/tf"

// keepState puts a state under a lock of another user.
func (g *guarded) keepState() {
	g.Helper()
	states := g.server.cfg.States
	lock := tfstate.Lock{ID: "a1", User: "admin", Token: 256, Info: []byte(info("a1"))}
	if _, err := states.Change(g.Context(), hiddenState, func(r *tfstate.Record) error { return r.Take(lock) }); err != nil {
		g.Fatal(err)
	}
	text := `{"password":"` + g.secret + `"}`
	if err := states.Write(g.Context(), hiddenState, strings.NewReader(text), func(r *tfstate.Record) error { return r.Admits("a1") }); err != nil {
		g.Fatal(err)
	}
}

// openStates lets a server keep states.
func openStates(t *testing.T, cfg *Config) {
	t.Helper()
	var err error
	states := filepath.Join(t.TempDir(), "states")
	if err := tfstate.Init(states); err != nil {
		t.Fatal(err)
	}
	if cfg.States, err = tfstate.Open(states); err != nil {
		t.Fatal(err)
	}
	cfg.StatesClient = client(t, cfg.Store, nil)
}

// terraform: users that reach for the state of another, with every method and kind of proof.
func (g *guarded) terraform() (all []attack) {
	add := func(what string, headers ...string) {
		for _, method := range []string{"GET", "POST", "DELETE", "LOCK", "UNLOCK"} {
			path, body := terraformPath+"?name="+hiddenState, ""
			if method != "GET" && method != "DELETE" {
				body = info("a1")
			}
			if method == "POST" {
				path += "&ID=a1"
			}
			all = append(all, attack{what + " " + method, request(method, path, body, append(headers, "Content-Type: application/json")...)})
		}
		all = append(all, attack{what + " force-unlock", request("UNLOCK", terraformPath+"?name="+hiddenState, "", headers...)})
	}
	basic := func(name, token string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+token))
	}
	add("nothing")
	for _, user := range []string{"viewer", "orders", "blind", "none", "gateway"} {
		add(user, g.bearer(user))
		add(user+" by password", basic(user, g.tokens[user]))
		add(user+" as admin", basic("admin", g.tokens[user]))
	}
	add("a name alone", basic("admin", ""))
	add("the token of admin as another", basic("viewer", g.tokens["admin"]))
	add("two proofs", basic("viewer", g.tokens["viewer"]), basic("admin", g.tokens["admin"]))
	return append(all, attack{"a password for other calls", request("GET", "/v1/locks", "", basic("admin", g.tokens["admin"]))})
}

// stateChanged counts what hostile requests changed of the state.
func (g *guarded) stateChanged() int {
	r, err := g.server.cfg.States.Read(hiddenState)
	text := ""
	if file, openErr := g.server.cfg.States.Get(hiddenState); openErr == nil && file != nil {
		all, _ := io.ReadAll(file)
		text = string(all)
		_ = file.Close()
	}
	if err != nil || r.Lock == nil || r.Lock.ID != "a1" || text != fmt.Sprintf(`{"password":%q}`, g.secret) {
		g.Errorf("the state is %q, its record %+v, %v", text, r, err)
		return 1
	}
	return 0
}
