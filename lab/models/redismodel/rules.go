// SPDX-License-Identifier: Apache-2.0

package redismodel

import "fmt"

// Rule is a rule of the protocol that can be switched off.
type Rule int

// The rules of the design. Rules 3, 5 and 7 have a switch for each part.
const (
	Tombstone      Rule = iota + 1 // a claim with a tombstone does not stand
	Generation                     // nor does one of another generation of its session
	Incarnation                    // nor one of an earlier incarnation that its session has not reclaimed
	RunID                          // the transaction proves the run id
	Length                         // it is granted only if the list was empty
	Marker                         // it reads the marker
	Session                        // it reads the session
	OneTransaction                 // it takes the ticket and pushes the claim in one step
	AboveAll                       // an incarnation begins above every earlier ticket
	DropTickets                    // and drops the tickets that lie ready
	AfterGrace                     // the transaction is used only after the grace period
	ByValue                        // a release removes values, not positions
	Sentinel                       // a shared lock has an element in the list
	Wake                           // a release that leaves a list notifies the next holder
	EvenTickets                    // tickets are even, fences odd
	Leftovers                      // a ticket or a claim alone is skipped
)

// The rules that the model added, described in the package comment.
const (
	KnownTicket Rule = iota + 17
	NotAdopted
	SameTicket
	SameSession
	SureRelease
	FenceAbove
	Patience
	OwnClaims
	Finish
	LaterEnd
	NoNewEnd
	MovedEnd
	InTime
	SameMarker
	ReplicationID
	Seen
	Checked
	SureEnd
	NotifyLast
	Whole
	rules
)

var ruleNames = [rules]string{
	Tombstone:      "1 tombstone",
	Generation:     "2 generation",
	Incarnation:    "3 incarnation",
	RunID:          "3 run id",
	Length:         "4 length",
	Marker:         "5 marker",
	Session:        "5 session",
	OneTransaction: "6 one transaction",
	AboveAll:       "7 above all",
	DropTickets:    "7 drop tickets",
	AfterGrace:     "8 after grace",
	ByValue:        "9 by value",
	Sentinel:       "10 sentinel",
	Wake:           "11 wake",
	EvenTickets:    "12 even tickets",
	Leftovers:      "13 leftovers",
	KnownTicket:    "14 known ticket",
	NotAdopted:     "15 not adopted",
	SameTicket:     "16 same ticket",
	SameSession:    "17 same session",
	SureRelease:    "18 sure release",
	FenceAbove:     "19 fence above",
	Patience:       "20 patience",
	OwnClaims:      "21 own claims",
	Finish:         "22 finish",
	LaterEnd:       "23 later end",
	NoNewEnd:       "24 no new end",
	MovedEnd:       "25 moved end",
	InTime:         "26 in time",
	SameMarker:     "27 same marker",
	ReplicationID:  "28 replication id",
	Seen:           "29 seen",
	Checked:        "30 checked",
	SureEnd:        "31 sure end",
	NotifyLast:     "32 notify last",
	Whole:          "33 whole scripts",
}

// String returns the number of the rule and its name.
func (r Rule) String() string { return ruleNames[r] }

// Rules are the rules that are on.
type Rules [rules]bool

// All returns all rules but those given.
func All(but ...Rule) (r Rules) {
	for i := range r {
		r[i] = true
	}
	for _, i := range but {
		r[i] = false
	}
	return r
}

// Scene is a small world and what may happen in it.
type Scene struct {
	Name            string
	Clients, Claims int
	// Tickets is how many tickets are ready at the start, at most 2.
	Tickets int
	// Eager lets a new incarnation issue tickets at once, not with the first attempt.
	Eager bool
	// Reader makes the last client take shared claims.
	Reader bool
	// Scripts lets clients use scripts where the fast path would do, as for a name that is
	// known as contended.
	Scripts bool
	// Poll lets claims that wait poll. Without it, each must be notified.
	Poll bool
	// Grace gives incarnations a grace period.
	Grace bool
	// Flush and Failover are the kinds of data loss.
	Flush, Failover bool
	// Failback lets the first server take over again, with the data and scripts it has then.
	Failback bool
	// Return lets the first server take over again with its own data: after it was a replica
	// that had copied nothing, or, if it is Unnoticed, as the master that it was.
	Return, Unnoticed bool
	// Lost is how many calls may be given up before their reply, Ends how many sessions may
	// end, Losses how often data may be lost, Breaks how often an operator breaks a
	// lock, Gives how many claims that wait are withdrawn.
	Lost, Ends, Losses, Breaks, Gives uint8
	// Batch lets a client send a claim in the pipeline of the release before it.
	Batch bool
	// TTL is how many ticks a session lives without a keep-alive, 0 if time is not modeled, Ticks
	// how long the world lasts, and Keeps how many keep-alives are sent. Apart sends them while
	// a slot moves, without the proof of the run id.
	TTL, Ticks, Keeps uint8
	Apart             bool
	// Stops is how many scripts may end in the middle with an error that no rule prevents, and
	// Moves how many may because their slot moves.
	Stops, Moves uint8
	// Shows are the rules that this scene shows to be needed.
	Shows []Rule
}

const (
	vSend uint8 = iota + 1
	vExecute
	vAccept
	vAbandon
	vAgain
	vReject
	vGiveUp
	vScript
	vBroken
	vLapse
	vReclaimed
	vUntrust
	vOpen
	vLate
	vEnd
	vSweep
	vFlush
	vRestart
	vCopy
	vFailover
	vFailback
	vReturn
	vUncheck
	vGraceEnds
	vBreak
	vTick
	vKeep
	vKeepDone
	vKeepTaken
	vKeepLost
	vStop
)

var (
	verbs = [...]string{
		vSend: "sends", vExecute: "the server executes", vAccept: "takes the reply", vAbandon: "gives up the call, and withdraws",
		vAgain: "gives up the call, and repeats it", vReject: "the first command is rejected", vGiveUp: "gives up", vScript: "releases by a script", vBroken: "learns that its lease is broken",
		vLapse: "loses its lease", vReclaimed: "has reclaimed everything", vUntrust: "does not trust its session any more",
		vOpen: "opens its session", vLate: "late arrives", vEnd: "the session ends", vSweep: "the session is swept", vFlush: "FLUSHALL",
		vRestart: "the server restarts without data", vCopy: "a replica copies the data", vFailover: "the replica takes over", vFailback: "the first server takes over again",
		vReturn: "the first server takes over again with its own data", vUncheck: "the marker was not checked for long",
		vGraceEnds: "the grace period ends", vBreak: "an operator breaks the lock",
		vTick: "time passes", vKeep: "sends a", vKeepDone: "the server executes the", vKeepTaken: "takes the reply to its keep-alive,", vKeepLost: "gives up its keep-alive",
		vStop: "the server stops in the middle of the script",
	}
	kinds = [...]string{
		mFast: "fast", mAttempt: "attempt", mWithdraw: "withdraw", mTombstone: "withdraw with a tombstone", mRelease: "release", mWake: "wake",
		mPush: "message", mShare: "shared attempt", mUnshare: "shared release", mReclaim: "reclaim",
		mKeep: "keep-alive", mKeepScript: "keep-alive by a script",
	}
	replies = [...]string{
		0: "", rGranted: "granted", rQueued: "queued", rSlow: "not granted", rAbsent: "absent", rGone: "gone", rReset: "reset", rOK: "ok", rNotThere: "not there", rConfirmed: "confirmed",
		rUndecided: "undecided", rRefused: "refused", rKept: "kept", rUnclear: "unclear",
	}
)

func (a action) String() string {
	s := verbs[a.verb]
	switch a.verb {
	case vFlush, vRestart, vCopy, vFailover, vFailback, vReturn, vUncheck, vGraceEnds, vTick:
		return s
	case vKeep, vKeepDone:
		return fmt.Sprintf("c%d %s %s", a.who, s, kinds[a.val])
	case vKeepTaken:
		return fmt.Sprintf("c%d %s %s", a.who, s, replies[a.val])
	case vBreak:
		return fmt.Sprintf("%s, fence %d", s, a.val)
	case vSend, vExecute, vLate:
		s += " " + kinds[a.val]
	case vStop:
		s += fmt.Sprintf(", after part %d of %s", a.val-1, kinds[mWithdraw])
	case vAccept:
		s += " " + replies[a.val]
	case vUntrust, vOpen, vEnd, vSweep, vReclaimed, vKeepLost:
		return fmt.Sprintf("c%d %s", a.who, s)
	}
	return fmt.Sprintf("c%d.%d %s", a.who, a.seq, s)
}
