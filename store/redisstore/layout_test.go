// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// layout is a namespace whose keys a test looks at, with a session for each
// process of a small scene.
type layout struct {
	t      *testing.T
	ctx    context.Context
	plain  *redis.Client
	store  *redisstore.Store
	bucket string
	ids    map[string]driver.SessionID
	on     map[string]driver.Session
}

func newLayout(t *testing.T) *layout {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return layoutOn(t, client)
}

// layoutOn is newLayout with a client that the test has made.
func layoutOn(t *testing.T, client *redis.Client) *layout {
	t.Helper()
	store, err := redisstore.New(client, &redisstore.Options{Namespace: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	return &layout{t: t, ctx: t.Context(), plain: client, store: store, bucket: "orders:{orders:0}",
		ids: map[string]driver.SessionID{}, on: map[string]driver.Session{}}
}

func (l *layout) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *layout) open(who string) {
	l.t.Helper()
	id := driver.NewSessionID()
	s, _, err := l.store.Open(l.ctx, driver.OpenRequest{Shard: l.store.Shard("x"), ID: id, TTL: 30 * time.Second})
	l.must(err)
	l.ids[who], l.on[who] = id, s
}

func (l *layout) attempt(who string, seq uint64, terms driver.Terms, want driver.State) driver.Token {
	l.t.Helper()
	terms.Weight, terms.Record = max(1, terms.Weight), &driver.Record{Owner: who}
	out, err := l.on[who].Attempt(l.ctx, &driver.Claim{Seq: seq, Name: "x", Terms: &terms, Queue: true})
	l.must(err)
	if out.State != want {
		l.t.Fatalf("%s's claim is %v, want %v", who, out.State, want)
	}
	return out.Token
}

func (l *layout) withdraw(who string, seq uint64, tombstone bool) {
	l.t.Helper()
	_, err := l.on[who].Withdraw(l.ctx, driver.Withdrawal{Seq: seq, Name: "x", Tombstone: tombstone})
	l.must(err)
}

// want fails unless the namespace has exactly these fields, in one key. Session
// ids are written as the name of the process.
func (l *layout) want(after string, fields ...string) {
	l.t.Helper()
	keys, err := l.plain.Keys(l.ctx, "*").Result()
	l.must(err)
	if fmt.Sprint(keys) != fmt.Sprint([]string{l.bucket}) {
		l.t.Errorf("after %s: the keys are %q, want %q alone", after, keys, l.bucket)
	}
	got, err := l.plain.HKeys(l.ctx, l.bucket).Result()
	l.must(err)
	for i, f := range got {
		for who, id := range l.ids {
			f = strings.ReplaceAll(f, string(id[:]), who)
		}
		got[i] = strings.ReplaceAll(f, "\x00", "/")
	}
	slices.Sort(got)
	slices.Sort(fields)
	if fmt.Sprint(got) != fmt.Sprint(fields) {
		l.t.Errorf("after %s the fields are\n     %q\nwant %q", after, got, fields)
	}
}

// six is a number in six bytes, as the fields are shown.
func six(n byte) string {
	return strings.ReplaceAll("\x00\x00\x00\x00\x00"+string(rune(n)), "\x00", "/")
}

// array returns a field that is an array in MessagePack, as JSON.
func (l *layout) array(field string) string { l.t.Helper(); return l.arrayAt(field, 1) }

// arrayAt does so for a field in which the array begins at a byte.
func (l *layout) arrayAt(field string, at int) string {
	l.t.Helper()
	for who, id := range l.ids {
		field = strings.ReplaceAll(field, who, string(id[:]))
	}
	text, err := l.plain.Eval(l.ctx, "return cjson.encode(cmsgpack.unpack(string.sub(redis.call('HGET', KEYS[1], ARGV[1]), ARGV[2])))",
		[]string{l.bucket}, field, at).Text()
	l.must(err)
	return text
}

// TestLayout: what docs/redis-layout.md says is in the store is there, and nothing
// else is, at any time.
func TestLayout(t *testing.T) {
	l := newLayout(t)
	exclusive := driver.Terms{}
	shared := driver.Terms{Mode: driver.Shared, Weight: 2, Limit: 3}

	l.open("ann")
	l.want("open", "m", "c", "sann")
	l.open("bob")
	l.attempt("ann", 1, exclusive, driver.Granted)
	l.want("lock", "m", "c", "sann", "sbob", "lx")
	l.attempt("bob", 1, exclusive, driver.Queued)
	l.want("wait", "m", "c", "sann", "sbob", "lx", "qx", "wx/"+six(0), "ibob"+six(1))
	l.withdraw("ann", 1, false)
	l.want("handoff", "m", "c", "sann", "sbob", "lx")
	l.withdraw("bob", 1, false)
	l.want("unlock", "m", "c", "sann", "sbob")

	l.attempt("ann", 2, shared, driver.Granted)
	l.must(l.store.SetLimit(l.ctx, "x", 4))
	l.attempt("bob", 2, shared, driver.Granted)
	l.want("shared locks and a limit", "m", "c", "sann", "sbob", "lx", "nx")
	l.withdraw("ann", 2, false)
	l.withdraw("bob", 2, false)
	l.must(l.store.SetLimit(l.ctx, "x", 0))
	l.want("all of it undone", "m", "c", "sann", "sbob")

	token := l.attempt("ann", 3, exclusive, driver.Granted)
	if _, err := l.store.Break(l.ctx, "x", token); err != nil {
		t.Fatal(err)
	}
	l.want("break", "m", "c", "sann", "sbob", "kann", "bann"+six(3))
	if got := l.array("kann"); got != "[3]" {
		t.Errorf("broken claims: got %s", got)
	}
	l.withdraw("ann", 3, false)
	l.want("the broken one's unlock", "m", "c", "sann", "sbob", "kann")
	if got := l.array("kann"); got != "[-3]" {
		t.Errorf("broken claims that were withdrawn: got %s", got)
	}

	l.attempt("ann", 4, exclusive, driver.Granted)
	l.withdraw("ann", 4, true)
	l.want("an unlock that tombstones", "m", "c", "sann", "sbob", "kann", "bann"+six(4))
	l.attempt("bob", 3, exclusive, driver.Granted)
	l.attempt("ann", 5, exclusive, driver.Queued)
	l.must(l.on["bob"].Close(l.ctx))
	l.must(l.on["ann"].Close(l.ctx))
	l.want("close", "m", "c")
}

// TestLayoutOfValues: the values are what docs/redis-layout.md says they are.
func TestLayoutOfValues(t *testing.T) {
	l := newLayout(t)
	before := time.Now()
	l.open("ann")
	l.open("bob")
	terms := driver.Terms{Mode: driver.Shared, Weight: 2, Limit: 3, MinHold: 5 * time.Second, MaxHold: 7 * time.Second}
	counter := int64(l.attempt("ann", 1, terms, driver.Granted)) / driver.TokenStep
	l.attempt("bob", 7, driver.Terms{Reentry: "r"}, driver.Queued)

	stored, err := l.plain.HGet(l.ctx, l.bucket, "c").Int64()
	l.must(err)
	if stored != counter || stored < before.UnixMicro() {
		t.Errorf("c is %d, the token's counter %d, the clock was %d", stored, counter, before.UnixMicro())
	}
	run := regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(l.plain.Info(l.ctx, "server").Val())[1]
	marker, _ := l.plain.HGet(l.ctx, l.bucket, "m").Bytes()
	if at := number(marker[:7]); at < before.UnixMicro() || at > time.Now().UnixMicro() {
		t.Errorf("the incarnation is %d, which is not when it began", at)
	}
	like(t, "m", l.arrayAt("m", 9), `["`+run+`",0,"v1 buckets=1 maxttl=1m0s grace=false"]`)
	like(t, "lx", l.array("lx"), `[["S",1,1,2,3,"",{"owner":"ann"},5000,7000,N,N,N,N,N,N,"x"]]`)
	like(t, "wx", l.array("wx\x00"+string(make([]byte, 6))), `["S",7,0,1,0,"r",{"owner":"bob"},0,0,N,0,0,0,N,N,"x"]`)

	id := l.ids["bob"]
	line, _ := l.plain.HGet(l.ctx, l.bucket, "qx").Bytes()
	if fmt.Sprint(line) != "[0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 1]" {
		t.Errorf("qx is %v, want the places 0 and 1 and one taken, in six bytes each", line)
	}
	if place := l.plain.HGet(l.ctx, l.bucket, "i"+string(id[:])+"\x00\x00\x00\x00\x00\x07").Val(); place != string(make([]byte, 6)) {
		t.Errorf("i is %q, want place 0", place)
	}
	session, _ := l.plain.HGet(l.ctx, l.bucket, "s"+string(id[:])).Bytes()
	if end := number(session[:6]); end < before.Add(30*time.Second).UnixMilli() || end > time.Now().Add(31*time.Second).UnixMilli() {
		t.Errorf("the session ends at %d ms, which is not 30 s from now", end)
	}
	if generation := number(session[6:13]); generation < before.UnixMicro() {
		t.Errorf("the session's generation is %d, before it was opened", generation)
	}
}

// TestLayoutOfPushes: a handoff is one message, to the one process.
func TestLayoutOfPushes(t *testing.T) {
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
	id := l.ids["bob"]
	for _, want := range [][2]string{{l.bucket + ":p:" + string(id[:]), "\x00\x00\x00\x00\x00\x05" + string(seven(counter))}, {"end", ""}} {
		m, err := all.ReceiveMessage(l.ctx)
		l.must(err)
		if m.Channel != want[0] || m.Payload != want[1] {
			t.Errorf("got message %q on %q, want %q on %q", m.Payload, m.Channel, want[1], want[0])
		}
	}
}

// TestLayoutOfPlainGrant: a grant in the short form.
func TestLayoutOfPlainGrant(t *testing.T) {
	p, store := pretended(t)
	w := newWorld(t, p, store, nil)
	w.open(0, time.Second)
	out, err := w.procs[0].real.Attempt(w.ctx, &driver.Claim{Seq: 9, Name: "a", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "ann"}}})
	w.must(err)
	raw, err := p.plain.HGet(w.ctx, "fencelock:{fencelock:0}", "la").Bytes()
	w.must(err)
	id := w.procs[0].id
	got := fmt.Sprintf("%c %d %d %s %d %d %d %s", raw[0], number(raw[1:8]), number(raw[8:14]), raw[14:30], number(raw[30:36]),
		number(raw[36:43]), number(raw[43:50]), raw[50:])
	micros := p.now.UnixMicro()
	want := fmt.Sprintf("X %d %d %s 9 %d %d %s", int64(out.Token)/driver.TokenStep, p.now.UnixMilli(), id[:], micros, micros, `{"owner":"ann"}`)
	if got != want {
		t.Errorf("a plain grant:\n got %s\nwant %s", got, want)
	}
}

// seven is a number in seven bytes.
func seven(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n))[1:] }

// number reads an unsigned number, the most significant byte first.
func number(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(append(make([]byte, 8-len(b)), b...)))
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

// TestLayoutIsDocumented: the fields that lib.lua lists are those of the document.
func TestLayoutIsDocumented(t *testing.T) {
	source, err := os.ReadFile("internal/luastore/lua/lib.lua")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "-- Fields of the bucket")
	list, _, _ = strings.Cut(list, "\n--\n")
	document, err := os.ReadFile("../../docs/redis-layout.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, documented []string
	for _, m := range regexp.MustCompile(`--   ([a-z]) {4}|\b([a-z])<`).FindAllStringSubmatch(list, -1) {
		listed = append(listed, m[1]+m[2])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z])[^|]*\\|").FindAllStringSubmatch(string(document), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(listed)
	slices.Sort(documented)
	if fmt.Sprint(listed) != fmt.Sprint(documented) || len(listed) == 0 {
		t.Errorf("fields in lib.lua %q, in docs/redis-layout.md %q", listed, documented)
	}
}
