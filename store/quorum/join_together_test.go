// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

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
