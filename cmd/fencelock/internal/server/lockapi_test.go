// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// lockers are servers on one store with users that may take locks.
type lockers struct {
	*testing.T
	store   driver.Store
	servers []*world
	tokens  map[string]string
}

// newLockers starts servers with the users ann, bob, and kim for names that begin with kim/.
func newLockers(t *testing.T, store driver.Store, servers int) *lockers {
	t.Helper()
	ls := &lockers{t, store, nil, map[string]string{}}
	text := ""
	for user, prefix := range map[string]string{"ann": "", "bob": "", "kim": "kim/"} {
		token, hash := access.NewToken()
		ls.tokens[user] = token
		text += fmt.Sprintf(`,{"name":%q,"tokens":[%q],"rights":[{"prefix":%q,"may":["see","take"]}]}`, user, hash, prefix)
	}
	policy, err := access.Parse([]byte(`{"users":[` + text[1:] + `]}`))
	must.OK(t, err)
	for range servers {
		ls.servers = append(ls.servers, newWorld(t, store, func(cfg *Config) {
			unlimited(cfg)
			cfg.Policy = func() *access.Policy { return policy }
		}))
	}
	return ls
}

// remoteClient is a client of one of the servers at a time.
type remoteClient struct {
	*lockers
	user, session string
	at            int // the server
}

// client makes a client with a session.
func (ls *lockers) client(user string, ttl time.Duration) *remoteClient {
	ls.Helper()
	c := &remoteClient{lockers: ls, user: user}
	var made sessionMade
	if status := c.post("/v1/session", sessionRequest{TTLMS: ttl.Milliseconds(), Owner: "test"}, &made); status != http.StatusOK {
		ls.Fatalf("no session: %d", status)
	}
	c.session = made.Session
	return c
}

// post makes a call and returns the status.
func (c *remoteClient) post(path string, body, v any) int {
	c.Helper()
	text, err := json.Marshal(body)
	must.OK(c, err)
	w := c.servers[c.at]
	req, err := http.NewRequestWithContext(context.Background(), "POST", w.web.URL+path, bytes.NewReader(text))
	must.OK(c, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.tokens[c.user])
	return w.do(req, v)
}

func (c *remoteClient) acquire(id, lock string, wait time.Duration) (a leases.Answer) {
	c.Helper()
	if status := c.post("/v1/acquire", acquireRequest{Session: c.session, ID: id, Lock: lock, WaitMS: wait.Milliseconds(), Watch: true}, &a); status != http.StatusOK {
		c.Fatalf("acquire %s: %d", lock, status)
	}
	return a
}

// want is acquire with a state that must come.
func (c *remoteClient) want(state leases.State, id, lock string, wait time.Duration) leases.Answer {
	c.Helper()
	a := c.acquire(id, lock, wait)
	if a.State != state {
		c.Fatalf("%s is %+v, want %s", lock, a, state)
	}
	return a
}

func named(a leases.Answer) leases.Named {
	return leases.Named{ID: a.ID, Lock: a.Lock, Token: a.Token, Watch: true, Contended: a.Contended, Moved: a.Moved}
}

func (c *remoteClient) renew(a leases.Answer, wait time.Duration) leases.Answer {
	c.Helper()
	var l leaseList
	if status := c.post("/v1/renew", renewRequest{Session: c.session, Leases: []leases.Named{named(a)}, WaitMS: wait.Milliseconds()}, &l); status != http.StatusOK || len(l.Leases) != 1 {
		c.Fatalf("renew: %d %+v", status, l)
	}
	return l.Leases[0]
}

func (c *remoteClient) release(a leases.Answer) (answer leases.Answer) {
	c.Helper()
	if status := c.post("/v1/release", releaseRequest{c.session, named(a)}, &answer); status != http.StatusOK {
		c.Fatalf("release: %d", status)
	}
	return answer
}

// TestLockAPI: a lock excludes, its calls can be repeated, its tokens rise, and its trusted time
// is within the TTL.
func TestLockAPI(t *testing.T) {
	onStores(t, func(t *testing.T, store driver.Store) {
		ls := newLockers(t, store, 1)
		ann, bob := ls.client("ann", 6*time.Second), ls.client("bob", 6*time.Second)
		sent := time.Now()
		a := ann.want(leases.Held, "1", "x", 0)
		took := time.Since(sent) // the TTL counts from the grant, and trusted time from before the call
		if again := ann.want(leases.Held, "1", "x", time.Second); again.Token != a.Token || a.Token <= 0 {
			t.Errorf("the same id got %v and %v", a.Token, again.Token)
		}
		if a.TrustedMS <= 0 || a.TrustedMS > 5400+took.Milliseconds() {
			t.Errorf("trusted for %d ms of a TTL of 6 s", a.TrustedMS)
		}
		bob.want(leases.Busy, "1", "x", 0)
		bob.want(leases.Waiting, "2", "x", time.Millisecond)
		ls.servers[0].until("bob is queued", func() bool { return ls.inspect("x").Waiting == 1 }) // the server queues a claim in the background
		if st := ls.inspect("x"); len(st.Holders) != 1 || st.Holders[0].Record.Owner != "ann:test" || len(st.Waiters) != 1 || st.Waiters[0].Record.Owner != "bob:test" {
			t.Errorf("%+v", st)
		}
		if got := ann.renew(a, 0); got.State != leases.Held || got.Token != a.Token {
			t.Errorf("renewed: %+v", got)
		}
		for range 2 {
			if got := ann.release(a); got.State != leases.Released {
				t.Errorf("released: %+v", got)
			}
		}
		b := bob.want(leases.Held, "2", "x", 20*time.Second)
		if b.Token <= a.Token {
			t.Errorf("tokens %v, then %v", a.Token, b.Token)
		}
		if got := ann.acquire("1", "x", 0); got.State != leases.Released {
			t.Errorf("a late acquisition after the release: %+v", got)
		}
		if status := bob.post("/v1/end", renewRequest{Session: bob.session}, nil); status != http.StatusOK {
			t.Errorf("end: %d", status)
		}
		if st := ls.inspect("x"); len(st.Holders) != 0 {
			t.Errorf("after the end of the session: %+v", st)
		}
		if status := bob.post("/v1/acquire", acquireRequest{Session: bob.session, ID: "3", Lock: "x"}, nil); status != http.StatusConflict {
			t.Errorf("an acquisition after the end: %d", status)
		}
	})
}

func (ls *lockers) inspect(lock string) fencelock.Status {
	ls.Helper()
	st, err := ls.servers[0].server.cfg.Client.Inspect(ls.Context(), lock)
	must.OK(ls, err)
	return st
}

// TestLeaseMovesToAnotherServer: another server continues a lease with its token for longer
// than the first one holds it, and releases it for both.
func TestLeaseMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		ls := newLockers(t, store, 2)
		ann, bob := ls.client("ann", 3*time.Second), ls.client("bob", 6*time.Second)
		a := ann.want(leases.Held, "1", "x", 0)
		ann.at = 1
		moved := ann.renew(a, 0)
		if moved.State != leases.Held || moved.Token != a.Token || !moved.Moved {
			t.Fatalf("moved: %+v", moved)
		}
		if st := ls.inspect("x"); len(st.Holders) != 2 {
			t.Errorf("%+v, want one grant of two servers", st)
		}
		for len(ls.inspect("x").Holders) == 2 { // until the first has unlocked
			if got := ann.renew(moved, 100*time.Millisecond); got.State != leases.Held || got.Token != a.Token {
				t.Fatalf("renewed: %+v", got)
			}
			bob.want(leases.Busy, fmt.Sprint(time.Now()), "x", 0)
		}
		ann.release(moved)
		b := bob.want(leases.Held, "1", "x", 0)
		// Acquired again at the second by its id, and released at the first, which does not know.
		bob.at = 1
		if got := bob.want(leases.Held, "1", "x", 0); got.Token != b.Token {
			t.Errorf("acquired again: %+v, want the token %v", got, b.Token)
		}
		b.Moved, bob.at = true, 0
		bob.release(b)
		if st := ls.inspect("x"); len(st.Holders) != 0 {
			t.Errorf("a release at one server left %+v", st)
		}
		c := bob.want(leases.Held, "2", "x", 0)
		bob.at = 1
		bob.release(c) // at a server that never had it
		ann.want(leases.Held, "2", "x", 0)
	})
}

// TestLeaseThatTheStoreLostDoesNotMove: a lease whose time is over is lost, even if the lock
// is free, and nothing is left of the attempt to continue it.
func TestLeaseThatTheStoreLostDoesNotMove(t *testing.T) {
	onStores(t, func(t *testing.T, store driver.Store) {
		ls := newLockers(t, store, 2)
		ann := ls.client("ann", time.Second)
		a := ann.want(leases.Held, "1", "x", 0)
		ls.servers[0].until("the lease ends", func() bool { return len(ls.inspect("x").Holders) == 0 })
		for at := range 2 {
			ann.at = at
			if got := ann.renew(a, 0); got.State != leases.Lost || got.Why == "" || got.TrustedMS != 0 {
				t.Errorf("renewed at %d: %+v", at, got)
			}
		}
		if st := ls.inspect("x"); len(st.Holders) != 0 {
			t.Errorf("left behind: %+v", st)
		}
	})
}

// noReentry is a store that cannot carry leases.
type noReentry struct{ driver.Store }

func (s noReentry) Caps() driver.Caps {
	caps := s.Store.Caps()
	caps.Reentry = false
	return caps
}

// TestStoreThatCannotCarryLeases: without re-entry a lease stays with its server, and the client is
// notified at once and knows why, when it renews at another server and when it releases there.
func TestStoreThatCannotCarryLeases(t *testing.T) {
	t.Parallel()
	ls := newLockers(t, noReentry{memstore.New(nil)}, 2)
	ann := ls.client("ann", 3*time.Second)
	a := ann.want(leases.Held, "1", "x", 0)
	if got := ann.renew(a, 0); got.State != leases.Held {
		t.Errorf("at its server: %+v", got)
	}
	ann.at = 1
	if got := ann.renew(a, 0); got.State != leases.Lost || !strings.Contains(got.Why, "cannot carry") {
		t.Errorf("at another: %+v", got)
	}
	for range 2 { // it has not released what it does not have, and neither has a repeated call
		if got := ann.release(a); got.State != leases.Lost || !strings.Contains(got.Why, "cannot carry") {
			t.Errorf("released at another: %+v", got)
		}
	}
	if st := ls.inspect("x"); len(st.Holders) != 1 {
		t.Errorf("after a release at another: %+v", st)
	}
	ann.at = 0
	for range 2 {
		if got := ann.release(a); got.State != leases.Released || got.Why != "" {
			t.Errorf("released at its server: %+v", got)
		}
	}
	if st := ls.inspect("x"); len(st.Holders) != 0 {
		t.Errorf("after a release at its server: %+v", st)
	}
	b := ann.want(leases.Held, "2", "x", 0)
	ann.at = 1
	var l leaseList
	if status := ann.post("/v1/end", renewRequest{Session: ann.session, Leases: []leases.Named{named(b)}}, &l); status != http.StatusOK || len(l.Leases) != 1 || l.Leases[0].State != leases.Lost {
		t.Errorf("ended at another: %d, %+v", status, l)
	}
	ls.servers[0].until("the lease ends with its TTL", func() bool { return len(ls.inspect("x").Holders) == 0 })
}

// noFencing is a store without tokens.
type noFencing struct{ driver.Store }

func (s noFencing) Caps() driver.Caps {
	caps := s.Store.Caps()
	caps.Fencing = driver.NoFencing
	return caps
}

// TestStoreWithoutTokensCarriesNoLeases: a server could not know whether a grant that it gets is the one of the lease.
func TestStoreWithoutTokensCarriesNoLeases(t *testing.T) {
	ls := newLockers(t, noFencing{memstore.New(nil)}, 2)
	ann := ls.client("ann", time.Second)
	a := ann.want(leases.Held, "1", "x", 0)
	ls.servers[0].until("the lease ends", func() bool { return len(ls.inspect("x").Holders) == 0 })
	ann.at = 1
	if got := ann.renew(a, 0); got.State != leases.Lost {
		t.Errorf("continued after its end: %+v", got)
	}
}

// TestClientsAreNotified: a renewal that waits returns as soon as another client waits for
// the lock, and as soon as the lease is lost.
func TestClientsAreNotified(t *testing.T) {
	onStores(t, func(t *testing.T, store driver.Store) {
		ls := newLockers(t, store, 1)
		ann, bob := ls.client("ann", 6*time.Second), ls.client("bob", 6*time.Second)
		a := ann.want(leases.Held, "1", "x", 0)
		bob.want(leases.Waiting, "1", "x", time.Millisecond)
		for !a.Contended {
			if a = ann.renew(a, time.Second); a.State != leases.Held {
				t.Fatalf("%+v", a)
			}
		}
		if _, err := ls.servers[0].server.cfg.Client.ForceUnlock(t.Context(), "x", a.Token); err != nil {
			t.Fatal(err)
		}
		for a.State == leases.Held {
			a = ann.renew(a, time.Second)
		}
		if a.State != leases.Lost || !strings.Contains(a.Why, "taken away") {
			t.Errorf("after a break: %+v", a)
		}
		bob.want(leases.Held, "1", "x", 20*time.Second)
	})
}

// TestQueueIsKeptBetweenCalls: a client that waits keeps its position while it calls again, and
// loses it if it does not for a TTL.
func TestQueueIsKeptBetweenCalls(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		ls := newLockers(t, store, 1)
		ann, bob, kim := ls.client("ann", 6*time.Second), ls.client("bob", 6*time.Second), ls.client("bob", 2*time.Second)
		a := ann.want(leases.Held, "1", "x", 0)
		kim.want(leases.Waiting, "1", "x", time.Millisecond) // and never again
		bob.want(leases.Waiting, "1", "x", time.Millisecond)
		ls.servers[0].until("both are queued", func() bool { return ls.inspect("x").Waiting == 2 }) // the server queues a claim in the background
		ls.servers[0].until("the first waiter is gone", func() bool { ann.renew(a, 0); return ls.inspect("x").Waiting == 1 })
		bob.want(leases.Waiting, "1", "x", time.Millisecond)
		if st := ls.inspect("x"); st.Waiting != 1 || st.Waiters[0].Age < 900*time.Millisecond {
			t.Errorf("the second waiter was queued again: %+v", st)
		}
		ann.release(a)
		bob.want(leases.Held, "1", "x", 6*time.Second)
	})
}

// TestCallNamesAHundredLongNames: a client renews as many leases in a call as its session has, whatever their names and reasons.
func TestCallNamesAHundredLongNames(t *testing.T) {
	ls := newLockers(t, memstore.New(nil), 1)
	ann := ls.client("ann", 2*time.Second)
	req := renewRequest{Session: ann.session}
	for i := range leases.MaxLeases {
		req.Leases = append(req.Leases, leases.Named{ID: fmt.Sprintf("%064d", i), Lock: strings.Repeat("ö", driver.MaxNameBytes/2), Reason: strings.Repeat("ö", 400), Token: 1})
	}
	var l leaseList
	if status := ann.post("/v1/renew", req, &l); status != http.StatusOK || len(l.Leases) != leases.MaxLeases || l.Leases[0].State != leases.Lost {
		t.Errorf("%d, %d leases", status, len(l.Leases))
	}
}

// TestLongReasonIsRejected: by its characters, and by its bytes together with the owner, as the description of the calls has it.
func TestLongReasonIsRejected(t *testing.T) {
	ls := newLockers(t, memstore.New(nil), 1)
	ann := ls.client("ann", 2*time.Second)
	for _, reason := range []string{strings.Repeat("a", maxReason+1), strings.Repeat("ö", maxReason)} {
		var got struct{ Code string }
		status := ann.post("/v1/acquire", acquireRequest{Session: ann.session, ID: reason[:4], Lock: "x", Reason: reason}, &got)
		if status != http.StatusBadRequest || got.Code != "reason" {
			t.Errorf("%d bytes: %d, code %q, want reason", len(reason), status, got.Code)
		}
	}
	var got struct{ Code string }
	if status := ann.post("/v1/acquire", acquireRequest{Session: ann.session, ID: "name", Lock: "x\n"}, &got); status != http.StatusBadRequest || got.Code != "name" {
		t.Errorf("a wrong name: %d, code %q, want name", status, got.Code)
	}
}

// TestAcquisitionInAGracePeriodIsAnsweredWithRetryAfter: a client can tell a store that grants nothing for now from a lock that is held.
func TestAcquisitionInAGracePeriodIsAnsweredWithRetryAfter(t *testing.T) {
	t.Parallel()
	store := memstore.New(&memstore.Options{Grace: true, MaxTTL: 20 * time.Second})
	store.Reset()
	ls := newLockers(t, store, 1)
	ann := ls.client("ann", 6*time.Second)
	text, err := json.Marshal(acquireRequest{Session: ann.session, ID: "1", Lock: "x"})
	must.OK(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "POST", ls.servers[0].web.URL+"/v1/acquire", bytes.NewReader(text))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ls.tokens["ann"])
	resp, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	var got problem
	must.OK(t, json.NewDecoder(resp.Body).Decode(&got))
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != http.StatusServiceUnavailable || got.Code != "grace" || err != nil || seconds < 1 || seconds > 20 {
		t.Errorf("got %d, %+v, Retry-After %q", resp.StatusCode, got, resp.Header.Get("Retry-After"))
	}
	ann.want(leases.Waiting, "2", "x", time.Millisecond)
}

// TestSessionsShowEachClientOfAServer: clients of the lock API are rows of the sessions, each under its own name, though they share the session
// of their server; the locks of one client are in one row.
func TestSessionsShowEachClientOfAServer(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		ls := newLockers(t, store, 1)
		ann, bob := ls.client("ann", 6*time.Second), ls.client("bob", 6*time.Second)
		a := ann.want(leases.Held, "1", "x", 0)
		y := ann.want(leases.Held, "2", "y", 0)
		b := bob.want(leases.Held, "1", "z", 0)
		bob.want(leases.Waiting, "2", "x", time.Millisecond)
		w := ls.servers[0]
		sessions := func(text string) (l sessionList) {
			w.get("/v1/sessions?text="+text, &l, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+ls.tokens["ann"]) })
			return l
		}
		w.until("both clients are listed", func() bool {
			ann.renew(a, 0)
			ann.renew(y, 0)
			bob.renew(b, 0)
			l := sessions("")
			return l.Total == 2 && l.Sessions[0].Waits == 1 && l.Sessions[1].Held == 2
		})
		for text, want := range map[string]string{"ann": "ann:test [x y] []", "bob": "bob:test [z] [x]", "eve": ""} {
			got := ""
			for _, s := range sessions(text).Sessions {
				got += fmt.Sprint(s.Owner, " ", s.Holds, " ", s.WaitsFor)
			}
			if got != want {
				t.Errorf("text=%s: got %q, want %q", text, got, want)
			}
		}
	})
}
