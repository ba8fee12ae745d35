// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestNodesAreJoinedAtTheSameTime: x has won on c, d and e. a and b granted it too, with tokens of their own that are
// higher, so for each of them c, d and e have to be raised. One keep-alive joins both, whether they kept their data or
// are just back without. From then on c and d can be spared.
func TestNodesAreJoinedAtTheSameTime(t *testing.T) {
	for name, back := range map[string]func(r *rig){
		"with their data": func(*rig) {},
		"empty":           func(r *rig) { r.reset(0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { joinedTogether(t, back) })
		})
	}
}

func joinedTogether(t *testing.T, back func(r *rig)) {
	r := newRig(t, 5, grace())
	stop := new(faultstore.Pauser)
	takes := faultstore.Delay(time.Millisecond, time.Millisecond) // so that calls to one node meet
	nodes := r.nodes(map[int]faultstore.Fault{0: takes, 1: takes, 2: takes, 3: takes, 4: takes})
	for _, i := range []int{2, 3} {
		f, err := faultstore.Wrap(nodes[i].Store, nil, &faultstore.Options{Pauser: stop})
		must.OK(t, err)
		t.Cleanup(f.Wait)
		nodes[i].Store = f
	}
	s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm})
	must.OK(t, err)
	c := r.client(s)
	must.OK(t, r.lock("holder", c, "w").Unlock(t.Context())) // the session knows the nodes' counters
	for _, n := range r.stores[:2] {
		ahead(t, n, "x")
	}
	x := r.lock("holder", c, "x")
	if on := r.on("x", x.Token()); on != "c d e" {
		t.Fatalf("it has its token on %q, want c d e", on)
	}
	back(r)
	for began := x.Deadline(); r.taken("x") < 5 || !x.Deadline().After(began); {
		time.Sleep(10 * time.Millisecond)
	}
	must.OK(t, s.Close()) // the keep-alive is over on every node
	r.log("c and d stop; %s", r.holders("x"))
	stop.Pause(time.Minute)
	time.Sleep(20 * time.Second)
	if !x.Valid() {
		t.Errorf("the lease was lost with three of five nodes well: %v", x.Err())
	}
}

// TestNodeThatIsAskedIsNotAskedAgain: an attempt is in flight on a slow node when the keep-alive joins nodes. Its answer
// counts; a second attempt for each such claim, one after the other, would keep the repair of the node busy for minutes.
func TestNodeThatIsAskedIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		nodes := r.nodes(map[int]faultstore.Fault{2: faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Delay(200*time.Millisecond, 0)))})
		tap := locktest.NewTap(nodes[2].Store)
		nodes[2].Store = tap
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm})
		must.OK(t, err)
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		_ = s.Close()
		before := len(tap.Sent(faultstore.Attempt))
		_, err = d.Attempt(t.Context(), claim(1))
		must.OK(t, err)
		_, err = d.KeepAlive(t.Context()) // c has not answered yet
		must.OK(t, err)
		_ = s.Close()
		if n := len(tap.Sent(faultstore.Attempt)) - before; n != 1 {
			t.Errorf("c was asked %d times, want once", n)
		}
		if n := r.taken("x"); n != 3 {
			t.Errorf("x is on %d nodes: %s", n, r.holders("x"))
		}
		must.OK(t, d.Close(t.Context()))
		_ = s.Close()
	})
}

// TestNodeThatHangsDelaysAJoinOnce: a node comes back and joins 40 claims, for each of which others have to be raised. One of
// these does not answer any more: it is waited for once, not for each claim.
func TestNodeThatHangsDelaysAJoinOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const claims = 40
		r := newRig(t, 7, grace())
		s := r.store(map[int]faultstore.Fault{0: away(time.Second, 50*time.Second), 3: away(50*time.Second, time.Hour)})
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		keepAlive := func() {
			t.Helper()
			_, err := d.KeepAlive(t.Context())
			must.OK(t, err)
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * time.Second)
		keepAlive()
		for i := range claims {
			c := claim(uint64(i + 1))
			c.Name = fmt.Sprint("x", i)
			out, err := d.Attempt(t.Context(), c)
			must.OK(t, err)
			if out.State != driver.Granted {
				t.Fatal(out)
			}
			ahead(t, r.stores[0], fmt.Sprint("y", i)) // others used it: its counter is higher
		}
		for time.Since(r.began) < 49*time.Second {
			keepAlive()
		}
		time.Sleep(50500*time.Millisecond - time.Since(r.began))
		for range 3 {
			keepAlive()
		}
		began := time.Now()
		_ = s.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the repair still took %v", took)
		}
		must.OK(t, d.Close(t.Context()))
		_ = s.Close()
	})
}
