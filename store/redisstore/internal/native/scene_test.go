// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/internal/rueidisclient"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// eager begins the namespaces in which a session waits until it can take the fast path, so
// that a test repeats.
const eager = "eager-"

// clocks are the clocks that scripts see, by namespace.
var clocks sync.Map

// switchesOf are the switches of a store, by its namespace.
func switchesOf(namespace string) native.Switches {
	scene := strings.HasPrefix(namespace, lists)
	on := native.Switches{
		Eager:     strings.HasPrefix(namespace, eager) || scene && !strings.HasSuffix(namespace, lazy),
		Contended: strings.HasSuffix(namespace, scripted),
		Batched:   strings.HasSuffix(namespace, batched),
	}
	if c, ok := clocks.Load(namespace); ok {
		on.Clock = c.(func() time.Time)
	}
	return on
}

// newGoRedis returns a store on a go-redis client, with the switches of its namespace.
func newGoRedis(client redis.UniversalClient, opts *native.Options) (*native.Store, error) {
	return newStoreOn(goredis.New(client, ""), opts)
}

// newRueidis is the same for rueidis.
func newRueidis(client rueidis.Client, opts *native.Options) (*native.Store, error) {
	return newStoreOn(rueidisclient.New(client), opts)
}

func newStoreOn(client rediscmd.Client, opts *native.Options) (*native.Store, error) {
	on := native.Switches{}
	if opts != nil {
		on = switchesOf(opts.Namespace)
	}
	return native.NewWith(client, opts, on)
}

// layout is a namespace whose keys a test reads, with a session for each process of a
// small scene. Tests know the layout by its methods only.
type layout struct {
	t      *testing.T
	ctx    context.Context
	server *redistest.Server
	plain  *redis.Client
	store  *native.Store
	bucket string
	ids    map[string]driver.SessionID
	on     map[string]driver.Session
}

func newLayout(t *testing.T) *layout { t.Helper(); return newLayoutIn(t, "orders") }

// newEagerLayout is newLayout for a test that needs the fast path.
func newEagerLayout(t *testing.T) *layout { t.Helper(); return newLayoutIn(t, eager+"orders") }

func newLayoutIn(t *testing.T, namespace string) *layout {
	t.Helper()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	l := layoutOn(t, client, namespace)
	l.server = server
	return l
}

// layoutOn is newLayout with a client that the test has made.
func layoutOn(t *testing.T, client *redis.Client, namespace string) *layout {
	t.Helper()
	return layoutWith(t, client, native.Options{Namespace: namespace})
}

// layoutWith is layoutOn with other options.
func layoutWith(t *testing.T, client *redis.Client, opts native.Options) *layout {
	t.Helper()
	store, err := newGoRedis(client, &opts)
	must.OK(t, err)
	return &layout{t: t, ctx: t.Context(), plain: client, store: store, bucket: bucketOf(opts.Namespace),
		ids: map[string]driver.SessionID{}, on: map[string]driver.Session{}}
}

// bucketOf is the key of the first bucket of a namespace.
func bucketOf(namespace string) string { return namespace + ":{" + namespace + ":0}" }

// list is the key of the list of a lock, grants that of its shared grants, tickets that of the
// numbers that are ready, and sessions that of the ends of sessions.
func (l *layout) list(name string) string   { return l.bucket + ":l:" + name }
func (l *layout) grants(name string) string { return l.bucket + ":g:" + name }
func (l *layout) tickets() string           { return l.bucket + ":t" }
func (l *layout) sessions() string          { return l.bucket + ":s" }

func (l *layout) must(err error) {
	l.t.Helper()
	must.OK(l.t, err)
}

func (l *layout) open(who string) { l.t.Helper(); l.openFor(who, time.Minute) }

func (l *layout) openFor(who string, ttl time.Duration) {
	l.t.Helper()
	id := driver.NewSessionID()
	s, _, err := l.store.Open(l.ctx, driver.OpenRequest{Shard: l.store.Shard("x"), ID: id, TTL: ttl})
	l.must(err)
	l.ids[who], l.on[who] = id, s
}

// attempt tries a claim for the lock x.
func (l *layout) attempt(who string, seq uint64, terms driver.Terms, want driver.State) driver.Token {
	l.t.Helper()
	return l.attemptOf(who, seq, "x", terms, want)
}

func (l *layout) attemptOf(who string, seq uint64, name string, terms driver.Terms, want driver.State) driver.Token {
	l.t.Helper()
	terms.Weight, terms.Record = max(1, terms.Weight), &driver.Record{Owner: who}
	out, err := l.on[who].Attempt(l.ctx, &driver.Claim{Seq: seq, Name: name, Terms: &terms, Queue: true})
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

// die ends the session of a process as its TTL does.
func (l *layout) die(who string) {
	l.t.Helper()
	id := l.ids[who]
	l.must(l.plain.HDel(l.ctx, l.bucket, "s"+string(id[:])).Err())
	l.must(l.plain.ZRem(l.ctx, l.sessions(), string(id[:])).Err())
}

// named writes the names of processes for their session ids, and a slash for each zero byte.
func (l *layout) named(text string) string {
	for who, id := range l.ids {
		text = strings.ReplaceAll(text, string(id[:]), who)
	}
	return strings.ReplaceAll(text, "\x00", "/")
}

// state returns the fields of the bucket and, without their common beginning, the other keys
// of the namespace, sorted.
func (l *layout) state() []string {
	l.t.Helper()
	all, err := l.plain.HKeys(l.ctx, l.bucket).Result()
	l.must(err)
	keys, err := l.plain.Keys(l.ctx, "*").Result()
	l.must(err)
	for _, k := range keys {
		if k != l.bucket {
			all = append(all, strings.TrimPrefix(k, l.bucket))
		}
	}
	for i, f := range all {
		all[i] = l.named(f)
	}
	slices.Sort(all)
	return all
}

// want fails unless the namespace has exactly these fields and keys, and the tickets.
func (l *layout) want(after string, all ...string) {
	l.t.Helper()
	got := l.state()
	all = append(all, ":t")
	slices.Sort(all)
	if !slices.Equal(got, all) {
		l.t.Errorf("after %s the fields and keys are\n     %q\nwant %q", after, got, all)
	}
}

// seven is a number in seven bytes.
func seven(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n))[1:] }

// number reads an unsigned number, the most significant byte first.
func number(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(append(make([]byte, 8-len(b)), b...)))
}

// six is a number in six bytes, as state shows it.
func six(n byte) string {
	return strings.ReplaceAll("\x00\x00\x00\x00\x00"+string(rune(n)), "\x00", "/")
}

// array returns a value that has an array in MessagePack behind some bytes, as JSON.
func (l *layout) array(value string, behind int) string {
	l.t.Helper()
	text, err := l.plain.Eval(l.ctx, "return cjson.encode(cmsgpack.unpack(ARGV[1]))", nil, value[behind:]).Text()
	l.must(err)
	return text
}

// field returns a field of the bucket; the names of processes stand for their session ids.
func (l *layout) field(field string) string {
	l.t.Helper()
	for who, id := range l.ids {
		field = strings.ReplaceAll(field, who, string(id[:]))
	}
	value, err := l.plain.HGet(l.ctx, l.bucket, field).Result()
	l.must(err)
	return value
}

// elements are those of the list of a lock.
func (l *layout) elements(name string) []string {
	l.t.Helper()
	all, err := l.plain.LRange(l.ctx, l.list(name), 0, -1).Result()
	l.must(err)
	return all
}

// shortText is a claim in the short form, with the names of processes.
func (l *layout) shortText(element string) string {
	l.t.Helper()
	if len(element) < 43 {
		l.t.Fatalf("%q is not a claim in the short form", element)
	}
	b := []byte(element)
	return fmt.Sprintf("%c since %d, %s, %d, generation %d, incarnation %d, %s", b[0], number(b[1:7]), l.named(element[7:23]), number(b[23:29]),
		number(b[29:36]), number(b[36:43]), b[43:])
}
