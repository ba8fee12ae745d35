// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// sessionOf returns a session without a connection.
func sessionOf(l Layout) *session {
	return &session{store: &Store{layout: l}, id: someID, claims: map[uint64]knownClaim{}}
}

// TestGrantOfADeletedNodeIsNotNoted: another program deletes a node after it was read and before its
// grant is noted. The claim is not granted: nothing would notify its holder.
func TestGrantOfADeletedNodeIsNotNoted(t *testing.T) {
	claim := &driver.Claim{Seq: 7, Name: "x"}
	e := knownClaim{node: node{name: "n"}, token: 512}
	for _, early := range []bool{false, true} {
		ss := sessionOf(&Curator{})
		ss.adopt("/x/n", 7)
		if early {
			ss.deleted("/x/n")
		}
		if noted := ss.noteGrant(claim, e); noted == early {
			t.Errorf("deleted before %t: the grant was noted: %t", early, noted)
		}
		if !early {
			ss.deleted("/x/n")
		}
		if broken := slices.Contains(ss.watched.broken(&ss.record), 7); broken == early {
			t.Errorf("deleted before %t: reported as broken: %t", early, broken)
		}
	}
	if !sessionOf(nativeLayout{}).noteGrant(claim, e) {
		t.Error("in a layout of its own the store has no watches, and a grant was not noted")
	}
}

// TestMissingGrantIsReported: an attempt of a granted claim finds no node, before a watch reports that.
// The claim is broken, unless this process has withdrawn it.
func TestMissingGrantIsReported(t *testing.T) {
	for name, tt := range map[string]struct {
		e    knownClaim
		r    record
		want bool
	}{
		"granted":    {knownClaim{granted: true}, record{}, true},
		"queued":     {knownClaim{}, record{}, false},
		"leaving":    {knownClaim{granted: true, leaving: 1}, record{}, false},
		"tombstoned": {knownClaim{granted: true}, record{Tombstoned: []uint64{7}}, false},
	} {
		ss := sessionOf(&Curator{})
		ss.claims[7], ss.record = tt.e, tt.r
		ss.missing(7)
		if got := slices.Contains(ss.watched.broken(&ss.record), 7); got != tt.want {
			t.Errorf("%s: reported as broken: %t, want %t", name, got, tt.want)
		}
	}
}

// TestCreationWithoutAStatIsAnError: an answer that does not have the parent's numbers is an error, and
// the process goes on.
func TestCreationWithoutAStatIsAnError(t *testing.T) {
	ss := sessionOf(nativeLayout{})
	a := &attempt{session: ss, claim: &driver.Claim{Seq: 7, Name: "x"}}
	name := node{session: someID, seq: 7, weight: 1}.prefix() + "0000000000"
	for _, stat := range []*zk.Stat{nil, {Mzxid: 5, NumChildren: 1}} {
		e, _, err := a.created(&call{ctx: t.Context(), pkg: "zkstore", op: "attempt"}, name, stat)
		if stat == nil && (err == nil || !strings.Contains(err.Error(), name)) || stat != nil && (err != nil || e.token == 0) {
			t.Errorf("with the stat %+v: %+v, %v", stat, e, err)
		}
	}
}

// TestRemovalThatWasNotSentDoesNotCount: the context of a withdrawal ends before the removal is sent. A
// node that is missing later was deleted by another program, so the removal must not be noted.
func TestRemovalThatWasNotSentDoesNotCount(t *testing.T) {
	ss := sessionOf(&Curator{})
	ss.adopt("/x/n", 7)
	ss.claims[7] = knownClaim{node: node{name: "n"}, granted: true}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, wrote := range []bool{false, true} {
		c := &call{ctx: ctx, pkg: "zkstore", op: "withdraw", session: ss, wrote: wrote}
		if _, err := ss.removeGranted(c, driver.Withdrawal{Seq: 7, Name: "x"}, ss.claims[7]); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	ss.deleted("/x/n")
	if !slices.Contains(ss.watched.broken(&ss.record), 7) {
		t.Error("a deletion after a withdrawal that sent nothing was not reported")
	}
}
