// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// operated is a server on which ann may see and break, with an audit log in a file.
type operated struct {
	*world
	token, log, users string
}

func newOperated(t *testing.T, store driver.Store) *operated {
	t.Helper()
	dir := t.TempDir()
	o := &operated{log: filepath.Join(dir, "audit.log"), users: filepath.Join(dir, "users.json")}
	var err error
	if o.token, _, err = access.AddToken(o.users, "ann", &access.Grant{May: []access.Right{access.See, access.ForceUnlock}}); err != nil {
		t.Fatal(err)
	}
	users, err := access.Watch(o.users, func(err error) { t.Error(err) })
	must.OK(t, err)
	log, err := audit.Open(o.log, nil)
	must.OK(t, err)
	o.world = newWorld(t, store, func(cfg *Config) {
		cfg.Policy, cfg.Audit = users.Policy, log
		cfg.limits = newLimits() // buckets that do not fill again, however slow the machine is
		cfg.limits.failures.perSecond, cfg.limits.breaks.perSecond = 0, 0
	})
	return o
}

// breakIt calls break as ann and decodes the answer into v.
func (o *operated) breakIt(lock string, token fencelock.Token, v any) int {
	o.Helper()
	body, err := json.Marshal(breakRequest{Lock: lock, Token: token, Reason: "web-1 is on fire"})
	must.OK(o, err)
	req, err := http.NewRequestWithContext(o.Context(), "POST", o.web.URL+"/v1/force-unlock", bytes.NewReader(body))
	must.OK(o, err)
	req.Header.Set("Authorization", "Bearer "+o.token)
	req.Header.Set("Content-Type", "application/json")
	return o.do(req, v)
}

// trail is the audit log, an entry a line.
func (o *operated) trail() (entries []audit.Entry) {
	o.Helper()
	text, err := os.ReadFile(o.log)
	must.OK(o, err)
	for line := range strings.Lines(string(text)) {
		var e audit.Entry
		must.OK(o, json.Unmarshal([]byte(line), &e))
		entries = append(entries, e)
	}
	return entries
}

// TestBreakLeavesATrail: a break ends the lease with that token and no other, returns the
// fence, and is in the audit log before and after. Repeating it breaks nothing.
func TestBreakLeavesATrail(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		o := newOperated(t, store)
		old := o.hold("bob", "a")[0]
		var done lockview.Broken
		if status := o.breakIt("a", old.Token(), &done); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		if done.Fence <= old.Token() || done.By != "ann" || done.Holder == nil || done.Holder.Owner != "bob" {
			t.Errorf("got %+v", done)
		}
		later := o.hold("eve", "a")[0]
		if later.Token() <= done.Fence {
			t.Errorf("fence %v, later token %v", done.Fence, later.Token())
		}
		for range 3 { // a replay
			var p problem
			if status := o.breakIt("a", old.Token(), &p); status != http.StatusConflict || p.Code != "not_held" {
				t.Errorf("got %d, %+v", status, p)
			}
		}
		if st, err := o.server.cfg.Client.Inspect(t.Context(), "a"); err != nil || len(st.Holders) != 1 || st.Holders[0].Token != later.Token() {
			t.Errorf("got %+v, %v", st, err)
		}
		var kinds []string
		for _, e := range o.trail() {
			kinds = append(kinds, fmt.Sprint(e.Kind, " ", e.Who, " ", e.Lock, " ", e.Token == old.Token(), " ", e.Reason != ""))
		}
		const asked, failed = "asked ann a true true", "failed ann a true true"
		if got, want := strings.Join(kinds, "\n"), strings.Join([]string{asked, "broken ann a true true", asked, failed, asked, failed, asked, failed}, "\n"); got != want {
			t.Errorf("got\n%s", got)
		}
		if e := o.trail()[1]; e.Fence != done.Fence || e.Holder != "bob" || e.Remote == "" || e.Call != "POST /v1/force-unlock" || e.Time.IsZero() {
			t.Errorf("got %+v", e)
		}
	})
}

// TestNoBreakWithoutAudit: if the audit log cannot be written, nothing is broken.
func TestNoBreakWithoutAudit(t *testing.T) {
	t.Parallel()
	o := newOperated(t, memstore.New(nil))
	l := o.hold("bob", "a")[0]
	must.OK(t, os.Remove(o.log))
	must.OK(t, os.Mkdir(o.log, 0o700))
	var p problem
	if status := o.breakIt("a", l.Token(), &p); status != http.StatusServiceUnavailable || p.Code != "audit" {
		t.Errorf("got %d, %+v", status, p)
	}
	if st, err := o.server.cfg.Client.Inspect(t.Context(), "a"); err != nil || len(st.Holders) != 1 {
		t.Errorf("got %+v, %v", st, err)
	}
}

// TestNoBreakInGrace: a holder from before a data loss may be shown; it is not broken.
func TestNoBreakInGrace(t *testing.T) {
	t.Parallel()
	store := memstore.New(&memstore.Options{Grace: true})
	o := newOperated(t, store)
	var l *fencelock.Lease
	o.until("the first grace period is over", func() bool {
		var err error
		l, err = client(t, store, nil).Mutex("a").TryLock(t.Context())
		return err == nil
	})
	store.Restart()
	var p problem
	if status := o.breakIt("a", l.Token(), &p); status != http.StatusConflict || p.Code != "grace" {
		t.Errorf("got %d, %+v", status, p)
	}
}

// TestDeniedCallsAreAudited: every denied call has a line with the reason that the caller
// did not get; calls above the rate limit share one.
func TestDeniedCallsAreAudited(t *testing.T) {
	t.Parallel()
	o := newOperated(t, memstore.New(nil))
	for range 60 {
		if status := o.get("/v1/locks", nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer fl_"+strings.Repeat("x", 43)) }); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
			t.Errorf("status %d", status)
		}
	}
	var unknown, limited int
	for _, e := range o.trail() {
		switch {
		case e.Kind != audit.Denied || e.Who != "" || strings.Contains(fmt.Sprint(e), "xxxx"):
			t.Errorf("got %+v", e)
		case e.Status == http.StatusUnauthorized && e.Error == access.ErrUnknownToken.Error():
			unknown++
		case e.Status == http.StatusTooManyRequests:
			limited++
		}
	}
	if unknown != 20 || limited != 1 {
		t.Errorf("%d are unknown, %d limited", unknown, limited)
	}
	// A caller at the same address that has a token is not locked out by others.
	if status := o.get("/v1/locks", nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+o.token) }); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// TestDeniedCallsOfAUserAreLimitedInTheAuditLog: a user without the right cannot fill the disk,
// neither by many calls nor by a long name, and the answer stays the same.
func TestDeniedCallsOfAUserAreLimitedInTheAuditLog(t *testing.T) {
	t.Parallel()
	o := newOperated(t, memstore.New(nil))
	token, _, err := access.AddToken(o.users, "bob", &access.Grant{Prefix: "b", May: []access.Right{access.See}})
	must.OK(t, err)
	status := func(name string) int {
		return o.get("/v1/lock?name="+name, nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	}
	o.until("bob is known", func() bool { return status("b") == http.StatusOK })
	before := len(o.trail())
	if got := status(strings.Repeat("a", driver.MaxNameBytes+1)); got != http.StatusBadRequest {
		t.Errorf("a long name: status %d", got)
	}
	for range 60 {
		if got := status("a"); got != http.StatusForbidden {
			t.Errorf("status %d", got)
		}
	}
	if lines := len(o.trail()) - before; lines != 21 {
		t.Errorf("60 denied calls have %d lines", lines)
	}
}

// TestBreaksAreLimited: a caller that breaks one lock after the other is stopped.
func TestBreaksAreLimited(t *testing.T) {
	t.Parallel()
	o := newOperated(t, memstore.New(nil))
	limited := 0
	for range 30 {
		if o.breakIt("a", 256, nil) == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited != 20 {
		t.Errorf("%d of 30 breaks were stopped", limited)
	}
}

// TestRemovedUserLosesItsStream: a stream that was opened with a token ends soon after the
// token is removed from the file of users.
func TestRemovedUserLosesItsStream(t *testing.T) {
	t.Parallel()
	o := newOperated(t, memstore.New(nil))
	v := o.watch("", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+o.token) })
	o.find(v, "poll", "revision")
	other := o.users + ".new"
	if _, _, err := access.AddToken(other, "bob", &access.Grant{May: []access.Right{access.See}}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, os.Rename(other, o.users))
	for e := v.next(); e.kind != ""; e = v.next() {
	}
}
