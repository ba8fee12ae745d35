// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// lists begins the namespaces of listScene. lazy ends those in which nothing is done for the sake
// of a test, scripted those in which all names are taken for contended, so that plain commands
// are not used, and batched those in which the script of batches is used instead.
const lists, lazy, scripted, batched = "lists-", "-lazy", "-scripted", "-batched"

var allLists = flag.Bool("sessions.all", false, "fail over 2,000 sessions, not 200")

// way is a way in which the store works.
type way struct {
	suffix string // of the namespace
	proven bool   // scripts prove the run id
}

var ways = []way{{"", true}, {scripted, true}, {batched, true}, {"", false}}

// TestUnderLoad: two processes with many goroutines each, for few names, never hold a lock
// at once, and tokens rise. The fast path, the scripts and batches of both take turns.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", lazy} {
		t.Run("suffix="+suffix, func(t *testing.T) {
			t.Parallel()
			to := login{Addr: redistest.Start(t).Addr}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			type held struct {
				by   atomic.Int64
				last fencelock.Token // guarded by the lock
			}
			var names [5]held
			var turns atomic.Int64
			end := time.Now().Add(2 * time.Second)
			var wg sync.WaitGroup
			for _, lib := range libraries {
				c := redistest.Locks(t, lib.open(t, to, &native.Options{Namespace: lists + "UnderLoad" + suffix}))
				for g := range 16 {
					wg.Go(func() {
						for i := g; time.Now().Before(end); i++ {
							at := i % len(names)
							l, err := c.Mutex(fmt.Sprint("lock ", at)).Lock(ctx)
							if err != nil {
								t.Error(err)
								return
							}
							h := &names[at]
							if n := h.by.Add(1); n != 1 || l.Token() <= h.last {
								t.Errorf("%d hold lock %d, token %v after %v", n, at, l.Token(), h.last)
							}
							h.last = l.Token()
							h.by.Add(-1)
							turns.Add(1)
							if err := l.Unlock(ctx); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
			}
			wg.Wait()
			t.Logf("%d turns", turns.Load())
		})
	}
}

// listScene is a namespace of lists whose keys a test looks at.
type listScene struct {
	t      *testing.T
	server *redistest.Server
	plain  *redis.Client
	store  *native.Store
	base   string
	ids    map[string]driver.SessionID
	on     map[string]driver.Session
}

// newLists returns a scene in which nothing is done for the sake of a test.
func newLists(t *testing.T) *listScene { t.Helper(); return newListsIn(t, t.Name()+lazy) }

func newListsIn(t *testing.T, namespace string) *listScene {
	t.Helper()
	namespace = lists + strings.TrimPrefix(namespace, lists)
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	store, err := newGoRedis(client, &native.Options{Namespace: namespace})
	must.OK(t, err)
	return &listScene{t, server, client, store, namespace + ":{" + namespace + ":0}", map[string]driver.SessionID{}, map[string]driver.Session{}}
}

func (l *listScene) open(who string, ttl time.Duration) {
	l.t.Helper()
	id := driver.NewSessionID()
	s, _, err := l.store.Open(l.t.Context(), driver.OpenRequest{Shard: l.store.Shard("x"), ID: id, TTL: ttl})
	must.OK(l.t, err)
	l.ids[who], l.on[who] = id, s
}

func (l *listScene) attempt(who string, seq uint64, name string, terms driver.Terms, want driver.State) driver.Token {
	l.t.Helper()
	terms.Weight, terms.Record = max(1, terms.Weight), &driver.Record{Owner: who}
	out, err := l.on[who].Attempt(l.t.Context(), &driver.Claim{Seq: seq, Name: name, Terms: &terms, Queue: true})
	if err != nil || out.State != want {
		l.t.Fatalf("%s's claim is %v, %v, want %v", who, out.State, err, want)
	}
	return out.Token
}

// keys returns the keys of the bucket without their common beginning, sorted.
func (l *listScene) keys() []string {
	l.t.Helper()
	keys, err := l.plain.Keys(l.t.Context(), "*").Result()
	must.OK(l.t, err)
	for i, k := range keys {
		keys[i] = strings.TrimPrefix(k, l.base)
	}
	slices.Sort(keys)
	return keys
}

// fields returns the fields of the bucket, sorted, with the names of processes.
func (l *listScene) fields() string {
	l.t.Helper()
	fields, err := l.plain.HKeys(l.t.Context(), l.base).Result()
	must.OK(l.t, err)
	for i, f := range fields {
		for who, id := range l.ids {
			f = strings.ReplaceAll(f, string(id[:]), who)
		}
		fields[i] = f
	}
	slices.Sort(fields)
	return fmt.Sprint(fields)
}
