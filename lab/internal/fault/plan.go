// SPDX-License-Identifier: Apache-2.0

// Package fault is what goes wrong in a cell: a plan of steps that is made from
// a seed, prints itself, and can be read back to be run again:
//
//	400ms stop holder for 1.8s; 2.5s kill client:2; 3s wipe server:0 for 200ms
//
// Plans are put together by joining them with a semicolon. This package decides;
// package cell does it.
package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verb is what is done.
type Verb string

// The verbs. Those with a duration are undone after it.
const (
	// Stop stops a process by SIGSTOP and lets it go on after a while.
	Stop Verb = "stop"
	// Kill ends a process by kill -9. It is started again, after a while if it
	// is a server, with its data.
	Kill Verb = "kill"
	// Wipe is Kill of a server whose data is gone.
	Wipe Verb = "wipe"
	// Rollback is Kill of a server whose data is then what it was For before.
	Rollback Verb = "rollback"
	// Flush removes all data of a running server, FlushScripts its scripts.
	Flush        Verb = "flush"
	FlushScripts Verb = "flush-scripts"
	// CutPush ends all connections of clients to a server that wait for messages,
	// CutAll all others too.
	CutPush Verb = "cut-push"
	CutAll  Verb = "cut-connections"
	// Cut, CutRequests and CutReplies make the network of a client a black hole;
	// Delay makes it slow, By in each direction.
	Cut         Verb = "cut"
	CutRequests Verb = "cut-requests"
	CutReplies  Verb = "cut-replies"
	Delay       Verb = "delay"
	// Duplicate loses the replies to a client, and sends what it sends again, By
	// later, on another connection. Repeat sends it again though it was answered,
	// which TCP does not do, though a proxy of the protocol could: it is in no row.
	Duplicate Verb = "duplicate"
	Repeat    Verb = "repeat"
	// Failover asks the deployment to promote another server. Migrate moves what the
	// lock is kept in to another server.
	Failover Verb = "failover"
	Migrate  Verb = "migrate"
	// Isolate cuts a server off from the other servers, Mute and Deafen in one
	// direction: it is not heard, or hears nothing. Clients still reach it.
	Isolate Verb = "isolate"
	Mute    Verb = "mute"
	Deafen  Verb = "deafen"
	// Fill leaves a server no memory for more data; Drain ends that.
	Fill  Verb = "fill"
	Drain Verb = "drain"
	// FillDisk leaves a server no room on its disk.
	FillDisk Verb = "fill-disk"
	// Clock sets the wall clock of a server By ahead, ClockBack By back.
	Clock     Verb = "clock"
	ClockBack Verb = "clock-back"
	// ClockRate makes the wall clock of a server run at a share of its speed.
	ClockRate Verb = "clock-rate"
	// Busy runs a script of another program on a server again and again, each By long.
	Busy Verb = "busy"
	// Crowd makes a client ask for hundreds of other locks at once.
	Crowd Verb = "crowd"
	// Break makes a client, as an operator, take a lock away from its holder.
	Break Verb = "break"
	// The others are about the IP packets of a client, on a wire of package wire. Lose,
	// Corrupt, Double and Reorder hit a share of them; a reordered one comes By late, and
	// the copy of a doubled one too.
	Lose    Verb = "lose"
	Corrupt Verb = "corrupt"
	Double  Verb = "double"
	Reorder Verb = "reorder"
	// DropUp and DropDown drop all packets from a client, or to it. Flap drops all for By,
	// none for By, and so on. Slow delays each By, and has a narrow bandwidth.
	DropUp   Verb = "drop-up"
	DropDown Verb = "drop-down"
	Flap     Verb = "flap"
	Slow     Verb = "slow"
)

var onWire = []Verb{Lose, Corrupt, Double, Reorder, DropUp, DropDown, Flap, Slow}

// OnWire reports whether a verb is about packets.
func (v Verb) OnWire() bool { return slices.Contains(onWire, v) }

// Step is one fault.
type Step struct {
	// At is counted from the beginning of the plan.
	At   time.Duration
	Verb Verb
	// Target is client:N, server:N, holder (who holds the lock then), idle (who has unlocked
	// one that may linger), waiter (one who waits for it), clients (all of them, packets only), master (the server that
	// grants), or pooler.
	Target string
	// Share is how much of it, in percent; 0 where that means nothing.
	Share   int
	By, For time.Duration
}

func (s Step) String() string {
	text := fmt.Sprintf("%v %s %s", s.At, s.Verb, s.Target)
	if s.Share > 0 {
		text += fmt.Sprintf(" at %d%%", s.Share)
	}
	if s.By > 0 {
		text += fmt.Sprintf(" by %v", s.By)
	}
	if s.For > 0 {
		text += fmt.Sprintf(" for %v", s.For)
	}
	return text
}

// Plan is steps in the order of time.
type Plan []Step

func (p Plan) String() string {
	var steps []string
	for _, s := range p {
		steps = append(steps, s.String())
	}
	return strings.Join(steps, "; ")
}

// Join puts plans together.
func Join(plans ...Plan) Plan {
	all := slices.Concat(plans...)
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return all
}

// Length is when the last step is over.
func (p Plan) Length() time.Duration {
	var end time.Duration
	for _, s := range p {
		end = max(end, s.At+s.For)
	}
	return end
}

// Wants is what must be prepared before the servers start.
type Wants struct {
	// Clock: their clocks can be set. Disk: their disks are small. Wire: the packets
	// of the clients pass through package wire.
	Clock, Disk, Wire bool
}

// Wants returns what a plan needs.
func (p Plan) Wants() Wants {
	var w Wants
	for _, s := range p {
		w.Clock = w.Clock || s.Verb == Clock || s.Verb == ClockBack || s.Verb == ClockRate
		w.Wire = w.Wire || s.Verb.OnWire()
		w.Disk = w.Disk || s.Verb == FillDisk
	}
	return w
}

// Moves reports whether a plan gives the servers a reason to change their master. A
// pause counts if it is as long as those of the rows in which another may take over.
func (p Plan) Moves(ttl time.Duration) bool {
	return slices.ContainsFunc(p, func(s Step) bool {
		switch s.Verb {
		case Failover, Migrate, Isolate, Mute, Deafen:
			return true
		case Kill, Wipe, Rollback:
			return s.ofServer()
		case Stop:
			return s.ofServer() && s.For > ttl*6/10
		}
		return false
	})
}

// ofServer reports whether a step is about a server that may be the master.
func (s Step) ofServer() bool { return s.Target == "master" || strings.HasPrefix(s.Target, "server:") }

var verbs = append([]Verb{Stop, Kill, Wipe, Rollback, Flush, FlushScripts, CutPush, CutAll, Cut, CutRequests, CutReplies, Delay,
	Duplicate, Repeat, Failover, Migrate, Isolate, Mute, Deafen, Fill, FillDisk, Clock, ClockBack, ClockRate, Busy, Crowd, Break}, onWire...)

// Parse reads what String wrote.
func Parse(text string) (Plan, error) {
	var p Plan
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		if len(words) < 3 || len(words)%2 == 0 {
			return nil, fmt.Errorf("fault %q: want TIME VERB TARGET [at SHARE%%] [by DURATION] [for DURATION]", part)
		}
		at, err := time.ParseDuration(words[0])
		s := Step{At: at, Verb: Verb(words[1]), Target: words[2]}
		if err == nil && !slices.Contains(verbs, s.Verb) {
			err = fmt.Errorf("there is no %q; there are %v", s.Verb, verbs)
		}
		for i := 3; i < len(words) && err == nil; i += 2 {
			switch words[i] {
			case "at":
				s.Share, err = strconv.Atoi(strings.TrimSuffix(words[i+1], "%"))
			case "by":
				s.By, err = time.ParseDuration(words[i+1])
			case "for":
				s.For, err = time.ParseDuration(words[i+1])
			default:
				err = fmt.Errorf("%q is neither at nor by nor for", words[i])
			}
		}
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		p = append(p, s)
	}
	return Join(p), nil
}

// Idle makes every other step about a holder one about a client that has unlocked, by the
// seed: of a lock that lingers that is a holder, too.
func (p Plan) Idle(seed uint64) {
	for i := range p {
		if p[i].Target == "holder" && (uint64(i)+seed)%2 == 0 {
			p[i].Target = "idle"
		}
	}
}
