// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// TestLayout: what docs/redis-layout.md says is in the store is there, and nothing
// else is, at any time.
func TestLayout(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	exclusive := driver.Terms{}
	shared := driver.Terms{Mode: driver.Shared, Weight: 2, Limit: 3}

	l.open("ann")
	l.want("open", "m", "v", ":s", "sann")
	l.open("bob")
	l.attempt("ann", 1, exclusive, driver.Granted)
	l.want("lock", "m", "v", ":s", "sann", "sbob", ":l:x")
	l.attempt("bob", 1, exclusive, driver.Queued)
	l.want("wait", "m", "v", ":s", "sann", "sbob", ":l:x")
	l.withdraw("ann", 1, false)
	l.want("handoff", "m", "v", ":s", "sann", "sbob", ":l:x")
	l.withdraw("bob", 1, false)
	l.want("unlock", "m", "v", ":s", "sann", "sbob")

	l.attempt("ann", 2, shared, driver.Granted)
	l.must(l.store.SetLimit(l.ctx, "x", 4))
	l.attempt("bob", 2, shared, driver.Granted)
	l.want("shared locks and a limit", "m", "v", ":s", "sann", "sbob", ":l:x", ":g:x", "nx")
	l.withdraw("ann", 2, false)
	l.withdraw("bob", 2, false)
	l.must(l.store.SetLimit(l.ctx, "x", 0))
	l.want("all of it undone", "m", "v", ":s", "sann", "sbob")

	token := l.attempt("ann", 3, exclusive, driver.Granted)
	if _, err := l.store.Break(l.ctx, "x", token); err != nil {
		t.Fatal(err)
	}
	l.want("break", "m", "v", ":s", "sann", "sbob", "kann", "bann"+six(3))
	if got := l.array(l.field("kann"), 0); got != "[3]" {
		t.Errorf("broken claims: got %s", got)
	}
	l.withdraw("ann", 3, false)
	l.want("the broken one's unlock", "m", "v", ":s", "sann", "sbob", "wann")
	if got := l.array(l.field("wann"), 0); got != "[3]" {
		t.Errorf("broken claims that were withdrawn: got %s", got)
	}

	l.attempt("ann", 4, exclusive, driver.Granted)
	l.withdraw("ann", 4, true)
	l.want("an unlock that tombstones", "m", "v", ":s", "sann", "sbob", "wann", "bann"+six(4))
	l.attempt("bob", 3, exclusive, driver.Granted)
	l.attempt("ann", 5, exclusive, driver.Queued)
	l.must(l.on["bob"].Close(l.ctx))
	l.must(l.on["ann"].Close(l.ctx))
	l.want("close", "m", "v")

	l.open("ann")
	l.attempt("ann", 6, driver.Terms{MinHold: time.Hour}, driver.Granted)
	l.want("a lock that is kept for a while", "m", "v", ":s", "sann", ":l:x")
	l.withdraw("ann", 6, false)
	l.want("a lock that is only kept", "m", "v", ":s", "sann", ":l:x", ":k")
}

// TestLayoutOfValues: the values are what docs/redis-layout.md says they are.
func TestLayoutOfValues(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	before := time.Now()
	l.open("ann")
	l.open("bob")
	terms := driver.Terms{Mode: driver.Shared, Weight: 2, Limit: 3, MinHold: 5 * time.Second, MaxHold: 7 * time.Second}
	counter := int64(l.attempt("ann", 1, terms, driver.Granted)) / driver.TokenStep
	l.attempt("bob", 7, driver.Terms{Reentry: "r"}, driver.Queued)
	held := int64(l.attemptOf("bob", 8, "y", driver.Terms{MaxHold: time.Hour}, driver.Granted)) / driver.TokenStep

	run := regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(l.plain.Info(l.ctx, "server").Val())[1]
	repl := regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(l.plain.Info(l.ctx, "replication").Val())[1]
	marker := l.field("m")
	if at := number([]byte(marker[:7])); at < before.UnixMicro() || at > time.Now().UnixMicro() {
		t.Errorf("the incarnation is %d, which is not when it began", at)
	}
	like(t, "m", l.array(marker, 27), `["`+run+`","v2 buckets=1","`+repl+`",0,0,N,0,0]`)
	if grace, most, over := marker[14], number([]byte(marker[15:21])), number([]byte(marker[21:27])); grace != 0 || most != time.Minute.Milliseconds() || over != 0 {
		t.Errorf("the marker has grace %d, max_ttl %d ms and end of grace %d, want 0, a minute and 0", grace, most, over)
	}
	l.wantTickets(max(counter, held), before)

	id := l.ids["ann"]
	all := l.elements("x")
	if len(all) != 4 || all[0] != "0" || all[1][0] != 'S' || all[3][0] != 'C' {
		t.Fatalf("the list of a shared lock that is waited for is %q", all)
	}
	like(t, "S", l.array(all[1], 1), fmt.Sprintf(`[1,2,2,"%d","0",0]`, counter))
	if ticket, err := strconv.ParseInt(all[2], 10, 64); err != nil || ticket <= counter {
		t.Errorf("the ticket of a queued claim is %q, want a number above %d", all[2], counter)
	}
	like(t, "C", l.array(all[3], 1), `["S",7,0,1,0,"r",{"owner":"bob"},0,0,N,0,0,0,N,N,"x"]`)
	grant, err := l.plain.HGet(l.ctx, l.grants("x"), string(id[:])+"\x00\x00\x00\x00\x00\x01").Result()
	l.must(err)
	like(t, "a shared grant", l.array(grant, 0), `["S",1,1,2,3,"",{"owner":"ann"},5000,7000,N,N,N,N,N,N,"x"]`)
	if all := l.elements("y"); len(all) != 2 || all[0] != fmt.Sprint(held) || all[1][0] != 'A' {
		t.Errorf("the list of a lock with MaxHold is %q", all)
	} else {
		like(t, "A", l.array(all[1], 1), `[["S",8,0,1,0,"",{"owner":"bob"},0,3600000,N,N,0,N,N,N,"y"]]`)
	}

	session, bob := []byte(l.field("sbob")), l.ids["bob"]
	score, err := l.plain.ZScore(l.ctx, l.sessions(), string(bob[:])).Result()
	l.must(err)
	if int64(score) != number(session[:6]) {
		t.Errorf("the session ends at %d ms, and at %.0f in the sorted set", number(session[:6]), score)
	}
	if end := int64(score); end < before.Add(time.Minute).UnixMilli() || end > time.Now().Add(61*time.Second).UnixMilli() {
		t.Errorf("the session ends at %d ms, which is not a minute from now", end)
	}
	if generation := number(session[6:13]); generation < before.UnixMicro() {
		t.Errorf("the session's generation is %d, before it was opened", generation)
	}
	marks, ttl, reclaimed, declared := number(session[13:17]), number(session[17:23]), number(session[23:30]), number(session[30:36])
	if len(session) != 36 || marks != 0 || ttl != 60000 || reclaimed != number([]byte(l.field("m")[:7])) || declared != 1<<48-60000 {
		t.Errorf("the session has %d marks, TTL %d, reclaimed %d, declares %d", marks, ttl, reclaimed, declared)
	}
}

// wantTickets fails unless the tickets follow the last number that was given and end with v.
func (l *layout) wantTickets(last int64, before time.Time) {
	l.t.Helper()
	ready, err := l.plain.LRange(l.ctx, l.tickets(), 0, -1).Result()
	l.must(err)
	if last < before.UnixMicro() || len(ready) == 0 || ready[len(ready)-1] != l.field("v") {
		l.t.Errorf("v is %s, the last number %d, the clock was %d, the tickets are %q", l.field("v"), last, before.UnixMicro(), ready)
	}
	for i, text := range ready {
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n != last+1+int64(i) {
			l.t.Fatalf("ticket %d is %q, want %d", i, text, last+1+int64(i))
		}
	}
}

// TestLayoutOfShortForms: the claims of locks that are held and waited for without further
// terms, as plain commands push them, and as scripts grant and queue them.
func TestLayoutOfShortForms(t *testing.T) {
	t.Parallel()
	p, store := pretended(t)
	w := newWorld(t, p, store, nil)
	p.proven = true
	w.open(0, time.Second)
	w.open(1, time.Second)
	l := layout{t: t, ctx: w.ctx, plain: p.plain, bucket: bucketOf(p.namespace),
		ids: map[string]driver.SessionID{"ann": w.procs[0].id, "bob": w.procs[1].id}}
	claim := func(seq uint64) *driver.Claim {
		return &driver.Claim{Seq: seq, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "me"}}}
	}
	short := func(letter, who string, seq int) string {
		micros := p.now.UnixMicro()
		return fmt.Sprintf(`%s since %d, %s, %d, generation %d, incarnation %d, {"owner":"me"}`, letter, p.now.UnixMilli(), who, seq, micros, micros)
	}
	want := func(when string, tokens []driver.Token, claims ...string) {
		t.Helper()
		all := l.elements("a")
		if len(all) != 2*len(claims) {
			t.Fatalf("%s: the list is %q", when, all)
		}
		for i, c := range claims {
			if got := l.shortText(all[2*i+1]); got != c {
				t.Errorf("%s: claim %d is\n     %s\nwant %s", when, i, got, c)
			}
			if i < len(tokens) && all[2*i] != fmt.Sprint(int64(tokens[i])/driver.TokenStep) {
				t.Errorf("%s: ticket %d is %q, the token %v", when, i, all[2*i], tokens[i])
			}
		}
	}
	first, err := w.procs[0].real.Attempt(w.ctx, claim(90))
	w.must(err)
	want("lock", []driver.Token{first.Token}, short("X", "ann", 90))
	_, err = w.procs[1].real.Attempt(w.ctx, claim(91))
	w.must(err)
	want("wait", []driver.Token{first.Token}, short("X", "ann", 90), short("Q", "bob", 91))
	_, err = w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 90, Name: "a"})
	w.must(err)
	second, err := w.procs[1].real.Attempt(w.ctx, claim(91))
	w.must(err)
	want("handoff", []driver.Token{second.Token}, short("G", "bob", 91))
}

// TestLayoutOfPushes: a handoff is one message, to the one process. The first claim in the queue, and
// no other, sends the holder a notice.
func TestLayoutOfPushes(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	all := l.plain.PSubscribe(l.ctx, "*")
	defer all.Close()
	if _, err := all.Receive(l.ctx); err != nil {
		t.Fatal(err)
	}
	l.open("ann")
	l.open("bob")
	l.open("eve")
	l.attempt("ann", 1, driver.Terms{}, driver.Granted)
	l.attempt("bob", 5, driver.Terms{}, driver.Queued)
	l.attempt("eve", 1, driver.Terms{}, driver.Queued)
	l.withdraw("ann", 1, false)
	counter := int64(l.attempt("bob", 5, driver.Terms{}, driver.Granted)) / driver.TokenStep
	l.must(l.plain.Publish(l.ctx, "end", "").Err())
	since := l.elements("x")[1][1:7]
	channel := func(who string) string {
		id := l.ids[who]
		return l.bucket + ":p:" + string(id[:])
	}
	for _, want := range [][2]string{
		{channel("ann") + ":w", "\x00\x00\x00\x00\x00\x01"},
		{channel("bob"), "\x00\x00\x00\x00\x00\x05" + string(seven(counter)) + since},
		{"end", ""},
	} {
		m, err := all.ReceiveMessage(l.ctx)
		l.must(err)
		if m.Channel != want[0] || m.Payload != want[1] {
			t.Errorf("got message %q on %q, want %q on %q", m.Payload, m.Channel, want[1], want[0])
		}
	}
}

// like compares JSON with a pattern: N is any number above 0, S a session, a
// record is written without its quotes.
func like(t *testing.T, what, got, pattern string) {
	t.Helper()
	got = strings.NewReplacer(`"{\"`, `{"`, `\"}"`, `"}`, `\"`, `"`).Replace(got)
	re := strings.NewReplacer(`[`, `\[`, `]`, `\]`, `{"`, `\{"`, `"}`, `"\}`, "N", `[1-9][0-9.e+]*`, `"S"`, `".+?"`).Replace(pattern)
	if !regexp.MustCompile(`(?s)^` + re + `$`).MatchString(got) {
		t.Errorf("%s is %s, want %s", what, got, pattern)
	}
}

// TestLayoutIsDocumented: the fields and the letters of claims that lib.lua lists are those of
// the document.
func TestLayoutIsDocumented(t *testing.T) {
	source, err := os.ReadFile("lua/lib.lua")
	must.OK(t, err)
	document, err := os.ReadFile("../../../../docs/redis-layout.md")
	must.OK(t, err)
	_, list, _ := strings.Cut(string(source), "-- Fields of H")
	list, _, _ = strings.Cut(list, "\nlocal ")
	find := func(text, pattern string) (all []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, strings.Join(m[1:], ""))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	for what, pair := range map[string][2][]string{
		"fields": {find(list, `--   ([a-z]) {2}|\b([a-z])<`), find(string(document), "(?m)^\\| `([a-z])[^|]*\\|")},
		"claims": {find(list, `--   ([A-Z]) {2}`), find(string(document), "(?m)^\\| `([A-Z])` \\|")},
	} {
		if !slices.Equal(pair[0], pair[1]) || len(pair[0]) == 0 {
			t.Errorf("%s in lib.lua %q, in docs/redis-layout.md %q", what, pair[0], pair[1])
		}
	}
}

// TestDocumentedInspection: what docs/redis.md shows of redis-cli is there.
func TestDocumentedInspection(t *testing.T) {
	t.Parallel()
	l := newEagerLayout(t)
	l.open("ann")
	l.open("bob")
	token := l.attempt("ann", 1, driver.Terms{}, driver.Granted)
	l.attempt("bob", 1, driver.Terms{}, driver.Queued)
	l.want("the scene", "m", "v", ":s", "sann", "sbob", ":l:x")
	all := l.elements("x")
	if len(all) != 4 || all[0] != fmt.Sprint(int64(token)/driver.TokenStep) {
		t.Fatalf("the lock is %q", all)
	}
	for i, want := range map[int]string{1: `X.*{"owner":"ann"}`, 3: `Q.*{"owner":"bob"}`} {
		if !regexp.MustCompile(`(?s)^` + want + `$`).MatchString(all[i]) {
			t.Errorf("element %d is %q, want %s", i, all[i], want)
		}
	}
	keys, _, err := l.plain.Scan(l.ctx, 0, eager+"orders:{"+eager+"orders:*:l:*", 1000).Result()
	if err != nil || !slices.Equal(keys, []string{l.list("x")}) {
		t.Errorf("the list of locks is %q, %v", keys, err)
	}
}
