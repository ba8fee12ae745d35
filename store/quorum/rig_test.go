// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// rig is a number of memory stores, and processes that use them as a quorum, in a
// bubble.
type rig struct {
	t      *testing.T
	stores []*memstore.Store
	began  time.Time

	mu     sync.Mutex
	line   []string // what happened, for people
	alarms []quorum.Alarm
}

func newRig(t *testing.T, n int, opts *memstore.Options) *rig {
	r := &rig{t: t, began: time.Now()}
	for range n {
		r.stores = append(r.stores, memstore.New(opts))
	}
	t.Cleanup(func() {
		if testing.Verbose() || t.Failed() {
			t.Log("the time line:\n" + strings.Join(r.line, "\n"))
		}
	})
	return r
}

// log writes a line of the time line.
func (r *rig) log(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line = append(r.line, fmt.Sprintf("%9v  ", time.Since(r.began).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

func (r *rig) alarm(a quorum.Alarm) {
	r.log("alarm: node %s %s, skew %v", a.Node, a.Kind, a.Skew)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms = append(r.alarms, a)
}

// alarmed reports whether there was an alarm of a kind.
func (r *rig) alarmed(kind quorum.AlarmKind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.alarms {
		if a.Kind == kind {
			return true
		}
	}
	return false
}

// nodeName names the nodes a, b, c as the stories do.
func nodeName(i int) string { return string(rune('a' + i)) }

// nodes are the stores, each behind the fault that faults has for it.
func (r *rig) nodes(faults map[int]faultstore.Fault) []quorum.Node {
	r.t.Helper()
	var nodes []quorum.Node
	for i, s := range r.stores {
		f, err := faultstore.Wrap(s, faults[i], &faultstore.Options{
			Reset: func(bool) { s.Reset() }, Step: s.StepClock,
		})
		must.OK(r.t, err)
		r.t.Cleanup(f.Wait)
		nodes = append(nodes, quorum.Node{Name: nodeName(i), Store: f})
	}
	return nodes
}

// store is a process's view of the nodes.
func (r *rig) store(faults map[int]faultstore.Fault) *quorum.Store {
	r.t.Helper()
	s, err := quorum.New(r.nodes(faults), &quorum.Options{Alarm: r.alarm, NodeTimeout: 200 * time.Millisecond})
	must.OK(r.t, err)
	return s
}

// process returns a client with its own store.
func (r *rig) process(faults map[int]faultstore.Fault, opts *fencelock.Options) *fencelock.Client {
	r.t.Helper()
	if opts == nil {
		opts = &fencelock.Options{TTL: 10 * time.Second}
	}
	return r.with(r.store(faults), opts)
}

// client is a process that uses a store.
func (r *rig) client(s *quorum.Store) *fencelock.Client {
	r.t.Helper()
	return r.with(s, &fencelock.Options{TTL: 10 * time.Second})
}

func (r *rig) with(s *quorum.Store, opts *fencelock.Options) *fencelock.Client {
	r.t.Helper()
	c, err := fencelock.New(s, opts)
	must.OK(r.t, err)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.Close(ctx) // a process that lost its nodes cannot say goodbye
		_ = s.Close()
	})
	return c
}

// lock acquires a lock and logs it.
func (r *rig) lock(who string, c *fencelock.Client, name string) *fencelock.Lease {
	r.t.Helper()
	l, err := c.Mutex(name).Lock(r.t.Context())
	if err != nil {
		r.t.Fatalf("%s: %v", who, err)
	}
	r.log("%s holds %q with token %v, on %s", who, name, l.Token(), r.on(name, l.Token()))
	return l
}

// on says which nodes have a grant with a token.
func (r *rig) on(name string, token fencelock.Token) string {
	var on []string
	for i, s := range r.stores {
		st, err := s.Inspect(context.Background(), name)
		must.OK(r.t, err)
		for _, h := range st.Holders {
			if h.Token == token.Base() {
				on = append(on, nodeName(i))
			}
		}
	}
	return strings.Join(on, " ")
}

// reset lets nodes lose their data, without any all of them.
func (r *rig) reset(nodes ...int) {
	for n, store := range r.stores {
		if len(nodes) == 0 || slices.Contains(nodes, n) {
			store.Reset()
		}
	}
}

// holders returns a text with the holders of a lock on each node.
func (r *rig) holders(name string) string {
	var all []string
	for i, s := range r.stores {
		st, err := s.Inspect(context.Background(), name)
		must.OK(r.t, err)
		for _, h := range st.Holders {
			all = append(all, fmt.Sprintf("%s has %v of %v", nodeName(i), h.Token, h.Claim.Session.String()[:4]))
		}
	}
	return strings.Join(all, ", ")
}

// taken says how many nodes have any grant of a name.
func (r *rig) taken(name string) (n int) {
	for _, s := range r.stores {
		st, err := s.Inspect(context.Background(), name)
		must.OK(r.t, err)
		if len(st.Holders) > 0 {
			n++
		}
	}
	return n
}

// grace are the options of nodes that are used for correctness.
func grace() *memstore.Options { return &memstore.Options{Grace: true, MaxTTL: 10 * time.Second} }
