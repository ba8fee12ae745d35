// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// newDenied has bob, who may see, take and break what begins with b.
func newDenied(t *testing.T) (o *operated, bob func(method, path, body string) int) {
	t.Helper()
	dir := t.TempDir()
	o = &operated{log: filepath.Join(dir, "audit.log"), users: filepath.Join(dir, "users.json")}
	var err error
	if o.token, _, err = access.AddToken(o.users, "bob", &access.Grant{Prefix: "b", May: []access.Right{access.See, access.Take, access.ForceUnlock}}); err != nil {
		t.Fatal(err)
	}
	policy, err := access.ReadFile(o.users)
	must.OK(t, err)
	log, err := audit.Open(o.log, nil)
	must.OK(t, err)
	o.world = newWorld(t, memstore.New(nil), func(cfg *Config) {
		cfg.Policy, cfg.Audit = func() *access.Policy { return policy }, log
		cfg.limits = newLimits() // buckets that do not fill again, however slow the machine is
		cfg.limits.failures.perSecond, cfg.limits.breaks.perSecond = 0, 0
	})
	return o, func(method, path, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, o.web.URL+path, strings.NewReader(body))
		must.OK(t, err)
		req.Header.Set("Authorization", "Bearer "+o.token)
		req.Header.Set("Content-Type", "application/json")
		return o.do(req, nil)
	}
}

// TestDeniedCallHasItsLockInTheAuditLog: an entry of a call that a user has no right to has the lock, the token and the reason that the call names.
func TestDeniedCallHasItsLockInTheAuditLog(t *testing.T) {
	t.Parallel()
	o, bob := newDenied(t)
	ann := (&lockers{T: t, servers: []*world{o.world}, tokens: map[string]string{"bob": o.token}}).client("bob", 2*time.Second)
	named := `"id": "1", "lock": "deploy", "token": "7168"`
	for _, c := range []struct {
		method, path, body, reason string
		token                      fencelock.Token
	}{
		{"POST", "/v1/force-unlock", `{"lock": "deploy", "token": "7168", "reason": "it is stuck"}`, "it is stuck", 7168},
		{"GET", "/v1/lock?name=deploy", "", "", 0},
		{"POST", "/v1/acquire", `{"session": "` + ann.session + `", "id": "1", "lock": "deploy", "reason": "nightly"}`, "nightly", 0},
		{"POST", "/v1/renew", `{"session": "` + ann.session + `", "leases": [{"id": "0", "lock": "b", "token": "1"}, {` + named + `}]}`, "", 7168},
		{"POST", "/v1/release", `{"session": "` + ann.session + `", ` + named + `}`, "", 7168},
	} {
		if status := bob(c.method, c.path, c.body); status != http.StatusForbidden {
			t.Errorf("%s: status %d", c.path, status)
		}
		all := o.trail()
		e := all[len(all)-1]
		path, _, _ := strings.Cut(c.path, "?")
		if e.Kind != audit.Denied || e.Who != "bob" || e.Remote == "" || e.Call != c.method+" "+path || e.Time.IsZero() || e.Status != http.StatusForbidden ||
			!strings.Contains(e.Error, "bob has no right to") || e.Lock != "deploy" || e.Token != c.token || e.Reason != c.reason || e.More != 0 {
			t.Errorf("%s: got %+v", c.path, e)
		}
	}
	bob("POST", "/v1/force-unlock", `{"lock": "deploy", "token": "7168", "reason": "`+strings.Repeat("ö", 2*maxReason)+`"}`)
	bob("POST", "/v1/force-unlock", `{"lock": "`+strings.Repeat("a", driver.MaxNameBytes+1)+`", "token": "7168", "reason": "x"}`) // not a name, and not denied
	all := o.trail()
	if e := all[len(all)-1]; len(all) != 6 || e.Reason != strings.Repeat("ö", maxReason) {
		t.Errorf("%d entries, the last is %+v", len(all), e)
	}
}

// TestDeniedCallsThatStopAreCounted: denied calls that share a line are in the audit log when no other call follows: a minute after the last line, and
// when the server ends.
func TestDeniedCallsThatStopAreCounted(t *testing.T) {
	t.Parallel()
	o, bob := newDenied(t)
	sent := 0
	burst := func(n int) {
		for range n {
			sent++
			bob("GET", "/v1/lock?name=deploy", "")
		}
	}
	logged := func() (n int) {
		for _, e := range o.trail() {
			if e.Kind != audit.Denied || e.Lock != "deploy" || e.Who != "bob" || e.Status != http.StatusForbidden {
				t.Errorf("got %+v", e)
			}
			n += 1 + e.More
		}
		return n
	}
	burst(50)
	if got := logged(); got != 21 {
		t.Errorf("%d calls are logged at once, want 20 and one that is followed by others", got)
	}
	o.server.noteDenied(time.Now(), false)
	if got := logged(); got != 21 {
		t.Errorf("%d calls are logged before the minute is over, want 21", got)
	}
	for range 2 { // once
		o.server.noteDenied(time.Now().Add(noteEvery), false)
		if got, lines := logged(), len(o.trail()); got != sent || lines != 22 {
			t.Errorf("a minute later %d of %d calls are logged, in %d lines", got, sent, lines)
		}
	}
	burst(7)
	for range 2 {
		o.server.FlushAudit()
		if got, lines := logged(), len(o.trail()); got != sent || lines != 23 {
			t.Errorf("at the end %d of %d calls are logged, in %d lines", got, sent, lines)
		}
	}
}

// TestCallersWithUnloggedDenialsAreNotEvicted: a limiter that has too many callers keeps those with a count that is not in the audit log.
func TestCallersWithUnloggedDenialsAreNotEvicted(t *testing.T) {
	t.Parallel()
	l := newLimiter(1, 1)
	now := time.Now()
	for range 3 {
		l.note("bob", audit.Entry{Time: now, Who: "bob"})
	}
	for i := range maxBuckets {
		l.allow(string(rune(i)), now.Add(time.Second))
	}
	if lines := l.due(now, true); len(lines) != 1 || lines[0].Who != "bob" || lines[0].More != 1 {
		t.Errorf("got %+v", lines)
	}
}
