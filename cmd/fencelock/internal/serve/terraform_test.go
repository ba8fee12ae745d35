// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/audit"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/tfstate"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memstore"
)

// stated is servers that keep the same states, with users that may take some of them.
type stated struct {
	*testing.T
	tokens  map[string]string
	policy  *access.Policy
	states  string
	log     string
	servers []*world
}

const applyOf = `{"ID":"%ID","Operation":"OperationTypeApply","Info":"","Who":"ann@laptop","Version":"1.11.4","Created":"2026-11-16T10:00:00Z","Path":""}`

// newStated has a server on each store; those are of one namespace.
func newStated(t *testing.T, ttl time.Duration, stores ...driver.Store) *stated {
	t.Helper()
	dir := t.TempDir()
	s := &stated{T: t, tokens: map[string]string{}, states: filepath.Join(dir, "states"), log: filepath.Join(dir, "audit.log")}
	if err := tfstate.Init(s.states); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "users.json")
	for name, g := range map[string]access.Grant{
		"ann": {Prefix: "tf/", May: []access.Right{access.See, access.State}}, "bob": {Prefix: "tf/", May: []access.Right{access.See, access.State}},
		"op":     {May: []access.Right{access.See, access.Break}},
		"viewer": {May: []access.Right{access.See}}, "blind": {May: []access.Right{access.State}},
		"taker": {May: []access.Right{access.See, access.Take}},
	} {
		var err error
		if s.tokens[name], _, err = access.AddToken(users, name, &g); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.policy, err = access.ReadFile(users); err != nil {
		t.Fatal(err)
	}
	for _, store := range stores {
		s.servers = append(s.servers, s.serve(store, ttl))
	}
	return s
}

func (s *stated) serve(store driver.Store, ttl time.Duration) *world {
	s.Helper()
	log, err := audit.Open(s.log, nil)
	if err != nil {
		s.Fatal(err)
	}
	return newWorld(s.T, store, func(cfg *Config) {
		unlimited(cfg)
		cfg.Policy, cfg.Audit = func() *access.Policy { return s.policy }, log
		if cfg.States, err = tfstate.Open(s.states); err != nil {
			s.Fatal(err)
		}
		if cfg.StatesClient, err = fencelock.New(store, &fencelock.Options{TTL: ttl}); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = cfg.StatesClient.Close(s.Context()) }) // a server that is cut off cannot
	})
}

// call sends what Terraform sends, with the token of a user as the password, and returns the
// status and the body.
func (s *stated) call(w *world, user, method, name, id, body string) (int, string) {
	s.Helper()
	query := url.Values{"name": {name}}
	if id != "" {
		query.Set("ID", id)
	}
	req, err := http.NewRequestWithContext(s.Context(), method, w.web.URL+terraformPath+"?"+query.Encode(), strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.SetBasicAuth(user, s.tokens[user])
	if body != "" {
		sum := md5.Sum([]byte(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	resp, err := w.web.Client().Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (s *stated) want(status int, w *world, user, method, name, id, body string) string {
	s.Helper()
	got, text := s.call(w, user, method, name, id, body)
	if got != status {
		s.Errorf("%s %s %s as %s: status %d, want %d: %s", method, name, id, user, got, status, text)
	}
	return text
}

func info(id string) string { return strings.ReplaceAll(applyOf, "%ID", id) }

// holder is the one that holds a lock in the store.
func (s *stated) holder(w *world, name string) *fencelock.Holder {
	s.Helper()
	st, err := w.server.cfg.Client.Inspect(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	if len(st.Holders) == 0 {
		return nil
	}
	return &st.Holders[0]
}

// TestTerraformState: a state is locked by one apply, written with the id of its lock only,
// and the lock is in the store.
func TestTerraformState(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		s := newStated(t, 0, store, store)
		one, two := s.servers[0], s.servers[1]
		s.want(204, one, "ann", "GET", "tf/prod", "", "")
		s.want(200, one, "ann", "LOCK", "tf/prod", "", info("a1"))
		s.want(200, two, "ann", "LOCK", "tf/prod", "", info("a1")) // its first answer was lost
		var busy lockInfo
		if err := json.Unmarshal([]byte(s.want(423, two, "bob", "LOCK", "tf/prod", "", info("b7"))), &busy); err != nil || busy.ID != "a1" || busy.Who != "ann@laptop" || busy.Created.IsZero() || busy.Path != "tf/prod" {
			t.Errorf("got %+v, %v", busy, err)
		}
		if h := s.holder(one, "tf/prod"); h == nil || h.Reentry != reentry("a1") || h.Record.Labels["terraform"] != "a1" || !strings.Contains(h.Record.Reason, "ann@laptop") {
			t.Errorf("in the store: %+v", h)
		}
		s.want(200, two, "ann", "POST", "tf/prod", "a1", `{"serial":1}`)
		s.want(423, one, "ann", "POST", "tf/prod", "b7", `{"serial":9}`)
		s.want(423, one, "bob", "POST", "tf/prod", "a1", `{"serial":9}`) // an id is not a secret
		s.want(409, one, "ann", "POST", "tf/prod", "", `{"serial":9}`)
		s.want(423, one, "op", "DELETE", "tf/prod", "", "")
		s.want(423, one, "ann", "UNLOCK", "tf/prod", "", info("b7"))
		s.want(200, two, "ann", "UNLOCK", "tf/prod", "", info("a1")) // not the server that locked
		if h := s.holder(one, "tf/prod"); h != nil {
			t.Errorf("in the store after the unlock: %+v", h)
		}
		s.want(200, two, "ann", "UNLOCK", "tf/prod", "", info("a1"))
		s.want(409, one, "ann", "POST", "tf/prod", "a1", `{"serial":9}`)
		s.want(200, one, "bob", "LOCK", "tf/prod", "", info("b7"))
		s.want(200, one, "bob", "UNLOCK", "tf/prod", "", info("b7"))
		if got := s.want(200, one, "bob", "GET", "tf/prod", "", ""); got != `{"serial":1}` {
			t.Errorf("the state is %s", got)
		}
		s.want(403, one, "ann", "DELETE", "tf/prod", "", "")
		s.want(200, one, "op", "DELETE", "tf/prod", "", "")
		s.want(200, two, "op", "DELETE", "tf/prod", "", "")
		s.want(204, two, "ann", "GET", "tf/prod", "", "")
	})
}

// TestTerraformForceUnlock: to unlock what another has locked takes the right to break, is
// in the audit log, and keeps the late apply from writing.
func TestTerraformForceUnlock(t *testing.T) {
	t.Parallel()
	s := newStated(t, 0, onRedis(t, startRedis(t)))
	w := s.servers[0]
	for _, body := range []string{"", info("a1")} { // as Terraform sends it, and as OpenTofu does
		s.want(200, w, "ann", "LOCK", "tf/prod", "", info("a1"))
		s.want(403, w, "bob", "UNLOCK", "tf/prod", "", body)
		if body == "" {
			s.want(403, w, "ann", "UNLOCK", "tf/prod", "", body) // it does not name the lock
		}
		s.want(200, w, "ann", "POST", "tf/prod", "a1", `{"serial":1}`)
		s.want(200, w, "op", "UNLOCK", "tf/prod", "", body)
		s.want(200, w, "bob", "LOCK", "tf/prod", "", info("b7"))
		s.want(200, w, "bob", "POST", "tf/prod", "b7", `{"serial":2}`)
		s.want(423, w, "ann", "POST", "tf/prod", "a1", `{"serial":9}`)
		s.want(423, w, "ann", "UNLOCK", "tf/prod", "", info("a1"))
		s.want(200, w, "bob", "UNLOCK", "tf/prod", "", info("b7"))
		s.want(409, w, "ann", "POST", "tf/prod", "a1", `{"serial":9}`)
		if got := s.want(200, w, "ann", "GET", "tf/prod", "", ""); got != `{"serial":2}` {
			t.Errorf("the state is %s", got)
		}
	}
	o := operated{world: w, log: s.log}
	var kinds []string
	for _, e := range o.trail() {
		if e.Kind != audit.Denied {
			kinds = append(kinds, string(e.Kind)+" "+e.Who+" "+e.Lock+" "+e.Holder)
		}
		if e.Kind == audit.Broken && (e.Token == 0 || !strings.Contains(e.Reason, "a1")) {
			t.Errorf("got %+v", e)
		}
	}
	if got, want := strings.Join(kinds, ", "), strings.TrimSuffix(strings.Repeat("asked op tf/prod ann, broken op tf/prod ann, ", 2), ", "); got != want {
		t.Errorf("got %s", got)
	}
}

// TestTerraformRights: a state has passwords, so that to see and take locks is not enough.
func TestTerraformRights(t *testing.T) {
	t.Parallel()
	s := newStated(t, 0, memstore.New(nil))
	w := s.servers[0]
	for _, method := range []string{"GET", "POST", "DELETE", "LOCK", "UNLOCK"} {
		s.want(403, w, "viewer", method, "tf/prod", "", "")
		s.want(403, w, "taker", method, "tf/prod", "", "")
		s.want(403, w, "blind", method, "tf/prod", "", "")
		s.want(403, w, "ann", method, "billing/prod", "", "")
		s.want(401, w, "stranger", method, "tf/prod", "", "")
		s.want(400, w, "ann", method, "", "", "")
	}
	s.tokens["ann"], s.tokens["bob"] = s.tokens["bob"], s.tokens["ann"]
	s.want(401, w, "ann", "GET", "tf/prod", "", "") // the token of another
	s.tokens["ann"], s.tokens["bob"] = s.tokens["bob"], s.tokens["ann"]
	if status := w.get("/v1/locks", nil, func(r *http.Request) { r.SetBasicAuth("ann", s.tokens["ann"]) }); status != 401 {
		t.Errorf("a password is accepted where no client needs it: %d", status)
	}
	s.want(400, w, "ann", "LOCK", "tf/prod", "", `{"Operation":"x"}`)
	s.want(400, w, "ann", "LOCK", "tf/prod", "", "")
	s.want(400, w, "ann", "LOCK", "tf/prod", "", `{"ID":"a\n1"}`)
	s.want(400, w, "ann", "LOCK", "tf/pr\nod", "", info("a1"))
	s.want(400, w, "ann", "LOCK", "tf/\xff", "", info("a1"))
	s.want(413, w, "ann", "LOCK", "tf/prod", "", `{"ID":"`+strings.Repeat("x", maxBody)+`"}`)
	off := newWorld(t, memstore.New(nil), nil)
	if status := off.get(terraformPath+"?name=a", nil, nil); status != 501 { // 404 is "no state" for Terraform
		t.Errorf("without --terraform: %d", status)
	}
}

// TestTerraformBodyIsChecked: a body that is not what was sent changes nothing.
func TestTerraformBodyIsChecked(t *testing.T) {
	t.Parallel()
	s := newStated(t, 0, memstore.New(nil))
	w := s.servers[0]
	s.want(200, w, "ann", "LOCK", "tf/prod", "", info("a1"))
	s.want(200, w, "ann", "POST", "tf/prod", "a1", `{"serial":1}`)
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.web.URL+terraformPath+"?name=tf/prod&ID=a1", strings.NewReader(`{"serial":2}`))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("ann", s.tokens["ann"])
	req.Header.Set("Content-Type", "application/json")
	sum := md5.Sum([]byte(`{"serial":3}`))
	req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	var p problem
	if status := w.do(req, &p); status != 400 || p.Code != "body" {
		t.Errorf("got %d, %+v", status, p)
	}
	if got := s.want(200, w, "ann", "GET", "tf/prod", "", ""); got != `{"serial":1}` {
		t.Errorf("the state is %s", got)
	}
}

// TestTerraformAndGoPrograms: a program that holds the lock of the store keeps Terraform out,
// and the other way round.
func TestTerraformAndGoPrograms(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		s := newStated(t, 0, store)
		w := s.servers[0]
		program := w.hold("web-1", "tf/prod")[0]
		var busy lockInfo
		if err := json.Unmarshal([]byte(s.want(423, w, "ann", "LOCK", "tf/prod", "", info("a1"))), &busy); err != nil || busy.ID != "token-"+program.Token().String() || busy.Who != "web-1" {
			t.Errorf("got %+v, %v", busy, err)
		}
		if err := program.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.want(200, w, "ann", "LOCK", "tf/prod", "", info("a1"))
		if l, err := client(t, store, nil).Mutex("tf/prod").TryLock(t.Context()); err == nil {
			t.Errorf("held with token %v", l.Token())
		}
	})
}

// TestBreakUnlocksATerraformState: an operator that breaks the lock, through the server or
// not, has unlocked the state.
func TestBreakUnlocksATerraformState(t *testing.T) {
	t.Parallel()
	store := onRedis(t, startRedis(t))
	s := newStated(t, time.Second, store)
	w := s.servers[0]
	s.want(200, w, "ann", "LOCK", "tf/prod", "", info("a1"))
	o := operated{world: w, token: s.tokens["op"]}
	if status := o.breakIt("tf/prod", s.holder(w, "tf/prod").Token, nil); status != 200 {
		t.Errorf("status %d", status)
	}
	s.want(409, w, "ann", "POST", "tf/prod", "a1", `{"serial":9}`) // at once
	s.want(200, w, "bob", "LOCK", "tf/prod", "", info("b7"))
	if _, err := client(t, store, nil).Break(t.Context(), "tf/prod", s.holder(w, "tf/prod").Token); err != nil {
		t.Fatal(err)
	}
	w.until("the server notices", func() bool {
		status, _ := s.call(w, "bob", "POST", "tf/prod", "b7", `{"serial":9}`)
		return status == 409
	})
	s.want(200, w, "ann", "LOCK", "tf/prod", "", info("a2"))
}

// TestAnotherServerTakesTerraformLocksOver: when a server is cut off, another one holds the
// locks of its applies, with their tokens, before the store ends them.
func TestAnotherServerTakesTerraformLocksOver(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	proxy, err := servers.NewProxy(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	s := newStated(t, 4*time.Second, storeAt(t, proxy.Addr), onRedis(t, redis))
	one, two := s.servers[0], s.servers[1]
	s.want(200, one, "ann", "LOCK", "tf/prod", "", info("a1"))
	before := s.holder(two, "tf/prod")
	proxy.Close()
	two.until("the other server holds it, too, or alone", func() bool {
		h := s.holder(two, "tf/prod")
		if h == nil {
			t.Fatal("the lock was free")
		}
		st, err := two.server.cfg.Client.Inspect(t.Context(), "tf/prod")
		if err != nil {
			t.Fatal(err)
		}
		return renewed(&st, reentry("a1"), 4*time.Second) && st.Holders[len(st.Holders)-1].Claim != before.Claim
	})
	if h := s.holder(two, "tf/prod"); h.Token != before.Token {
		t.Errorf("token %v, before %v", h.Token, before.Token)
	}
	s.want(200, one, "ann", "POST", "tf/prod", "a1", `{"serial":1}`) // no store is needed for that
	s.want(200, two, "ann", "POST", "tf/prod", "a1", `{"serial":2}`)
	s.want(200, two, "ann", "UNLOCK", "tf/prod", "", info("a1"))
	s.want(200, two, "bob", "LOCK", "tf/prod", "", info("b7"))
}

// TestTerraformLockOutlivesAllServers: when no server runs for longer than the TTL, no other
// apply begins, and a server that starts takes the lock of the store again.
func TestTerraformLockOutlivesAllServers(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	proxy, err := servers.NewProxy(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	s := newStated(t, time.Second, storeAt(t, proxy.Addr))
	s.want(200, s.servers[0], "ann", "LOCK", "tf/prod", "", info("a1"))
	direct := onRedis(t, redis)
	outside := client(t, direct, nil)
	inspect := func() fencelock.Status {
		st, err := outside.Inspect(t.Context(), "tf/prod")
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	token := inspect().Holders[0].Token
	s.servers[0].stop()
	proxy.Close()
	s.servers[0].until("the lock of the store ends", func() bool { return len(inspect().Holders) == 0 })
	two := s.serve(direct, time.Second)
	s.want(423, two, "bob", "LOCK", "tf/prod", "", info("b7"))
	two.until("the server takes the lock again", func() bool {
		r, err := two.server.cfg.States.Read("tf/prod")
		if err != nil {
			t.Fatal(err)
		}
		return r.Lock.Token > token
	})
	s.want(200, two, "ann", "POST", "tf/prod", "a1", `{"serial":1}`)
	s.want(200, two, "ann", "UNLOCK", "tf/prod", "", info("a1"))
	s.want(200, two, "bob", "LOCK", "tf/prod", "", info("b7"))
}
