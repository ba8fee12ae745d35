// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// text is a slot in one line: what is zero is left out.
func text(s Slot) string {
	words := []string{s.Standing.String()}
	add := func(set bool, format string, args ...any) {
		if set {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(s.Token > 0, "%d", s.Token)
	add(s.Removal != NotDue, "%v", s.Removal)
	add(s.Call != Idle, "%v", s.Call)
	add(s.Lost > 0, "lost=%d", s.Lost)
	add(s.Counted, "counted")
	add(s.Regains(), "regains")
	add(s.Late, "late")
	add(s.Again, "again")
	add(s.Had, "had")
	add(s.Reclaims > 0, "reclaims=%d", s.Reclaims)
	add(s.Asked > 0, "asked=%d", s.Asked)
	add(s.Try > 0, "try=%d", s.Try)
	add(s.Found != driver.WasAbsent, "found=%v", s.Found)
	return strings.Join(words, " ")
}

var replies = map[string]Reply{
	"granted": ReplyGranted, "queued": ReplyQueued, "busy": ReplyBusy, "grace": ReplyGrace, "absent": ReplyAbsent,
	"not-ready": ReplyNotReady, "not-sent": ReplyNotSent, "rejected": ReplyRejected, "cut": ReplyCut, "unknown": ReplyUnknown,
}

var removals = map[string]driver.Removed{"granted": driver.WasGranted, "absent": driver.WasAbsent}

// run is a line of slot.txt that is being executed.
type run struct {
	t     *testing.T
	s     Slot
	stale bool   // the next reply is to a session from before
	note  string // what the last event returned
}

// won is the token that the claim of slot.txt won with.
const won = 5

func (r *run) event(e string) {
	name, arg, _ := strings.Cut(e, ":")
	if reply, ok := replies[name]; ok {
		token := driver.Token(0)
		if arg != "" {
			token = driver.Token(number(r.t, arg))
		}
		r.s, r.stale = r.s.OnReply(reply, token, !r.stale), false
		return
	}
	sent := true
	switch name {
	case "ask", "ask!":
		r.s, sent = r.s.Ask()
	case "withdraw", "withdraw!":
		r.s, sent = r.s.Withdraw(Current)
		if r.s.Tombstone() && r.s.Reclaims > 0 {
			r.note = " tombstone"
		}
	case "reclaim", "reclaim!":
		r.s, sent = r.s.Reclaim()
	case "reset-there":
		before := r.s
		if after, sent := before.Withdraw(Reset); sent || after != before {
			r.t.Error("a withdrawal was sent to a node that is not open")
		}
	default:
		if !r.withdrawn(name, arg) && !r.session(name) {
			r.t.Fatalf("unknown event %q", e)
		}
	}
	if strings.HasSuffix(name, "!") == sent {
		r.t.Errorf("%s: sent is %v", e, sent)
	}
}

func (r *run) withdrawn(name, arg string) bool {
	switch name {
	case "ok", "keep":
		r.s = r.s.OnWithdrawn(WithdrawnOK, removals[arg], name == "keep")
		r.note = ""
	case "ended":
		r.s = r.s.OnWithdrawn(WithdrawnEnded, driver.WasAbsent, false)
	case "failed":
		r.s = r.s.OnWithdrawn(WithdrawnFailed, driver.WasAbsent, false)
	case "no-answer":
		r.s = r.s.OnWithdrawn(WithdrawnUnknown, driver.WasAbsent, false)
	case "leave":
		r.s = r.s.Leave(true)
	case "yield":
		r.s = r.s.Yield(true)
	case "sweep":
		r.s = r.s.Sweep()
	case "skip":
		r.s = r.s.Skip()
	case "pushed":
		r.s = r.s.OnPush(ReplyGranted, driver.Token(number(r.t, arg)))
	case "pushed-nothing":
		r.s = r.s.OnPush(ReplyBusy, 0)
	case "push-failed":
		r.s = r.s.OnPush(ReplyUnknown, 0)
	default:
		return false
	}
	return true
}

func (r *run) session(name string) bool {
	share := NoShare
	switch name {
	case "stale":
		r.stale = true
	case "ended-session":
		r.s = r.s.SessionLost(false, true, true)
	case "reset":
		r.s = r.s.SessionLost(true, true, true)
	case "reset-uncounted":
		r.s = r.s.SessionLost(true, true, false)
	case "reset-released":
		r.s = r.s.SessionLost(true, false, false)
	case "suspend":
		r.s = r.s.Suspend(true)
	case "answered":
		r.s = r.s.ReclaimEnded(0, false)
	case "unanswered":
		r.s = r.s.ReclaimEnded(0, true)
	case "kept", "not-kept":
		r.s, share = r.s.OnReclaimed(name == "kept", won, false)
		r.note = " (" + share.String() + ")"
	default:
		return false
	}
	return true
}

// TestSlot runs the events of slot.txt.
func TestSlot(t *testing.T) {
	eachLine(t, "slot.txt", func(t *testing.T, given, want string) {
		r := &run{t: t}
		for _, e := range strings.Fields(given) {
			r.event(e)
		}
		if got := text(r.s) + r.note; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestNodeSession runs through the states of a session on a node.
func TestNodeSession(t *testing.T) {
	s := Closed
	step := func(name string, got, want NodeSession) {
		t.Helper()
		if s = got; got != want {
			t.Fatalf("%s: got %v, want %v", name, got, want)
		}
	}
	step("opened", s.Opened(), Current)
	step("reset", s.Lost(true), Reset)
	if !s.Present() || s.Open() {
		t.Error("a node that was reset may have something, and is not open")
	}
	if next, newID := s.Opening(); next != Reset || newID {
		t.Errorf("after a reset: got %v, another id %v", next, newID)
	}
	step("opened after a reset", s.Opened(), Owing)
	step("reset again", s.Lost(true), Reset)
	step("opened again", s.Opened(), Owing)
	step("put back", s.PutBack(), Current)
	step("put back twice", s.PutBack(), Current)
	step("ended", s.Lost(false), Ended)
	if s.Present() || s.Open() {
		t.Error("nothing is left of a session that ended")
	}
	next, newID := s.Opening()
	if !newID {
		t.Error("a session that ended is opened under the same id")
	}
	step("opening", next, Closed)
	step("an Open that may still arrive", s.OpenUnanswered(), Missed)
	if s.Present() || s.Open() {
		t.Error("nothing was sent under a session that may never have been opened")
	}
	if next, newID = s.Opening(); next != Closed || !newID {
		t.Errorf("after an Open that may still arrive: got %v, another id %v", next, newID)
	}
	if got := Reset.OpenUnanswered(); got != Reset {
		t.Errorf("after a data loss: got %v; the node may have claims of this id", got)
	}
}
