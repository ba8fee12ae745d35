// SPDX-License-Identifier: Apache-2.0

package main

// handoffMutants break the wake-up of waiters on MySQL and MariaDB.
var handoffMutants = []mutant{
	{
		name: "handoff-bound-of-nothing", catcher: testOf("store/sqlstore", "TestHandoffLockWait"), file: "store/sqlstore/handofflock.go",
		old: "math.Ceil(bound.Seconds())",
		new: "math.Round(math.Ceil(bound.Seconds()) - 0.6)",
	},
	{
		name: "handoff-bound-beyond-the-ttl", catcher: testOf("store/sqlstore", "TestHandoffLockWait"), file: "store/sqlstore/handofflock.go",
		old: "3*ttl, longestWait), false",
		new: "longestWait), false",
	},
	{
		name: "handoff-without-a-process", catcher: testOf("store/sqlstore", "TestNextHandoffLock"), file: "store/sqlstore/waker_handoff.go",
		old: " && !slices.Contains(dead, id) {\n",
		new: " {\n",
	},
	{
		name: "handoff-of-itself", catcher: testOf("store/sqlstore/internal/book", "TestHandoffLocksBefore"), file: "store/sqlstore/internal/book/handoff.go",
		old: "b.Queue[j].Record",
		new: "b.Queue[i].Record",
	},
	{
		name: "handoff-of-one-holder-of-two", catcher: testOf("store/sqlstore/internal/book", "TestHandoffLocksBefore"), file: "store/sqlstore/internal/book/handoff.go",
		old: "len(b.Grants) == 1 &&",
		new: "len(b.Grants) > 0 &&",
	},
	{
		name: "handoff-in-a-record-without-a-comma", catcher: testOf("store/sqlstore/internal/book", "TestHandoffLockInARecord"), file: "store/sqlstore/internal/book/handoff.go",
		old: "	if rest != \"{\" {\n",
		new: "	if false {\n",
	},
	{
		name: "handoff-and-a-poll", catcher: testOf("store/sqlstore", "TestHandoffLockIsTheLastStatement"), file: "store/sqlstore/waker_handoff.go",
		old: "	case r.row != nil:\n",
		new: "	case false:\n",
	},
	{
		name: "handoff-of-a-closed-store", catcher: testOf("store/sqlstore", "TestHandoffLocksOfAClosedStore"), file: "store/sqlstore/handofflocks.go",
		old: "	b.working.Wait()\n",
		new: "",
	},
	{
		name: "handoff-of-a-whole-handle", catcher: testOf("store/sqlstore", "TestMayReserve"), file: "store/sqlstore/budget.go",
		old: "2*(kept+1) <= limit",
		new: "kept+1 <= limit",
	},
	{
		name: "handoff-that-waits-counts-as-idle-soon", catcher: testOf("store/sqlstore", "TestHandoffLockThatWaitsIsNotIdleSoon"), file: "store/sqlstore/handofflock.go",
		old: "	case !bl.waits: //",
		new: "	case true: //",
	},
	{
		name: "handoff-with-poll", catcher: testOf("store/sqlstore", "TestNoHandoffLocksWithPoll"), file: "store/sqlstore/handofflocks.go",
		old: "s.dialect != MySQL || s.opts.Poll ||",
		new: "s.dialect != MySQL ||",
	},
	{
		name: "handoff-that-keeps-the-table", catcher: testOf("store/sqlstore", "TestHandoffLockWait"), file: "store/sqlstore/handofflock.go",
		old: "3*ttl, longestWait), false",
		new: "3*ttl, longestWait), true",
	},
	{
		name: "handoff-with-two-waits", catcher: testOf("store/sqlstore", "TestHandoffLockHasOneWait"), file: "store/sqlstore/handofflock.go",
		old: "	case wait && bl.waits: //",
		new: "	case false: //",
	},
	{
		name: "handoff-that-takes-the-last-connection", catcher: testOf("store/sqlstore", "TestHandoffLocksLeaveAConnection"), file: "store/sqlstore/handofflock.go",
		old: "	conn, err := spared(ctx, b.s.db)\n",
		new: "	conn, err := b.s.db.Conn(ctx)\n",
	},
	{
		name: "handoff-on-galera-again", catcher: testOf("store/sqlstore", "TestHandoffLocksThatCannotWork"), file: "store/sqlstore/handofflocks.go",
		old: "|| shared || code(err) == unsupported,",
		new: "|| shared,",
	},
	{
		name: "handoff-without-its-limit", catcher: testOf("store/sqlstore", "TestHandoffLockAndALimitForStatements"), file: "store/sqlstore/handofflock.go",
		old: "case !j.read && among(limits, c):",
		new: "case false:",
	},
	{
		name: "handoff-of-a-long-wait-that-is-left", catcher: testOf("store/sqlstore", "TestHandoffLockOfALongWaitThatIsLeft"), file: "store/sqlstore/handofflock.go",
		old: "	case bl.long:\n",
		new: "	case false:\n",
	},
	{
		name: "handoff-of-a-chain-that-is-too-long", catcher: testOf("store/sqlstore", "TestHandoffLocksThatWaitForEachOther"), file: "store/sqlstore/handofflock.go",
		old: "		return waitEnd{state: waitChain}, nil\n",
		new: "		return waitEnd{state: waitRefused}, nil\n",
	},
	{
		name: "handoff-that-died-again-and-again", catcher: testOf("store/sqlstore", "TestWaiterBehindADeadHandoffLock"), file: "store/sqlstore/waker_handoff.go",
		old: "			w.dead = append(w.dead, waited)\n",
		new: "			w.dead = nil\n",
	},
	{
		name: "claim-that-never-reads-again", catcher: testOf("store/sqlstore", "TestFarClaimRestsOnce"), file: "store/sqlstore/waker_handoff.go",
		old: "	w.reuse = false\n",
		new: "",
	},
	{
		name: "claim-in-front-that-rests", catcher: testOf("store/sqlstore", "TestFarClaimRestsOnce"), file: "store/sqlstore/waker_handoff.go",
		old: "w.place >= reuseFrom, out",
		new: "true, out",
	},
}
