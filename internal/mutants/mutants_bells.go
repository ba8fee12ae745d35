// SPDX-License-Identifier: Apache-2.0

package main

// bellMutants break the wake-up of waiters on MySQL and MariaDB.
var bellMutants = []mutant{
	{
		name: "bell-bound-of-nothing", catcher: testOf("store/sqlstore", "TestBellWait"), file: "store/sqlstore/bell.go",
		old: "math.Ceil(bound.Seconds())",
		new: "math.Round(math.Ceil(bound.Seconds()) - 0.6)",
	},
	{
		name: "bell-bound-beyond-the-ttl", catcher: testOf("store/sqlstore", "TestBellWait"), file: "store/sqlstore/bell.go",
		old: "3*ttl, bellLongest), false",
		new: "bellLongest), false",
	},
	{
		name: "bell-without-a-process", catcher: testOf("store/sqlstore", "TestNextBell"), file: "store/sqlstore/follow.go",
		old: " && !slices.Contains(dead, id) {\n",
		new: " {\n",
	},
	{
		name: "bell-of-itself", catcher: testOf("store/sqlstore/internal/book", "TestBellsBefore"), file: "store/sqlstore/internal/book/bell.go",
		old: "b.Queue[j].Record",
		new: "b.Queue[i].Record",
	},
	{
		name: "bell-of-one-holder-of-two", catcher: testOf("store/sqlstore/internal/book", "TestBellsBefore"), file: "store/sqlstore/internal/book/bell.go",
		old: "len(b.Grants) == 1 &&",
		new: "len(b.Grants) > 0 &&",
	},
	{
		name: "bell-in-a-record-without-a-comma", catcher: testOf("store/sqlstore/internal/book", "TestBellInARecord"), file: "store/sqlstore/internal/book/bell.go",
		old: "	if rest != \"{\" {\n",
		new: "	if false {\n",
	},
	{
		name: "bell-and-a-poll", catcher: testOf("store/sqlstore", "TestBellIsTheLastStatement"), file: "store/sqlstore/follow.go",
		old: "	case r.row != nil:\n",
		new: "	case false:\n",
	},
	{
		name: "bell-of-a-closed-store", catcher: testOf("store/sqlstore", "TestBellsOfAClosedStore"), file: "store/sqlstore/bells.go",
		old: "	b.working.Wait()\n",
		new: "",
	},
	{
		name: "bells-of-a-whole-handle", catcher: testOf("store/sqlstore", "TestMayReserve"), file: "store/sqlstore/budget.go",
		old: "2*(kept+1) <= limit",
		new: "kept+1 <= limit",
	},
	{
		name: "bell-that-waits-counts-as-idle-soon", catcher: testOf("store/sqlstore", "TestBellThatWaitsIsNotIdleSoon"), file: "store/sqlstore/bell.go",
		old: "	case !bl.waits: //",
		new: "	case true: //",
	},
	{
		name: "bells-with-poll", catcher: testOf("store/sqlstore", "TestNoBellsWithPoll"), file: "store/sqlstore/bells.go",
		old: "s.dialect != MySQL || s.opts.Poll ||",
		new: "s.dialect != MySQL ||",
	},
	{
		name: "bell-that-keeps-the-table", catcher: testOf("store/sqlstore", "TestBellWait"), file: "store/sqlstore/bell.go",
		old: "3*ttl, bellLongest), false",
		new: "3*ttl, bellLongest), true",
	},
	{
		name: "bell-with-two-waits", catcher: testOf("store/sqlstore", "TestBellHasOneWait"), file: "store/sqlstore/bell.go",
		old: "	case wait && bl.waits: //",
		new: "	case false: //",
	},
	{
		name: "bell-that-takes-the-last-connection", catcher: testOf("store/sqlstore", "TestBellsLeaveAConnection"), file: "store/sqlstore/bell.go",
		old: "	conn, err := spared(ctx, b.s.db)\n",
		new: "	conn, err := b.s.db.Conn(ctx)\n",
	},
	{
		name: "bells-on-galera-again", catcher: testOf("store/sqlstore", "TestBellsThatCannotWork"), file: "store/sqlstore/bells.go",
		old: "|| shared || code(err) == unsupported,",
		new: "|| shared,",
	},
	{
		name: "bell-without-its-limit", catcher: testOf("store/sqlstore", "TestBellAndALimitForStatements"), file: "store/sqlstore/bell.go",
		old: "case !j.read && among(limits, c):",
		new: "case false:",
	},
	{
		name: "bell-of-a-long-wait-that-is-left", catcher: testOf("store/sqlstore", "TestBellOfALongWaitThatIsLeft"), file: "store/sqlstore/bell.go",
		old: "	case bl.long:\n",
		new: "	case false:\n",
	},
	{
		name: "bell-of-a-chain-that-is-too-long", catcher: testOf("store/sqlstore", "TestBellsThatWaitForEachOther"), file: "store/sqlstore/bell.go",
		old: "		return ring{state: ringChain}, nil\n",
		new: "		return ring{state: ringRefused}, nil\n",
	},
	{
		name: "bell-that-died-again-and-again", catcher: testOf("store/sqlstore", "TestWaiterBehindADeadBell"), file: "store/sqlstore/follow.go",
		old: "			w.dead = append(w.dead, waited)\n",
		new: "			w.dead = nil\n",
	},
	{
		name: "claim-that-never-reads-again", catcher: testOf("store/sqlstore", "TestFarClaimRestsOnce"), file: "store/sqlstore/follow.go",
		old: "	w.rest = false\n",
		new: "",
	},
	{
		name: "claim-in-front-that-rests", catcher: testOf("store/sqlstore", "TestFarClaimRestsOnce"), file: "store/sqlstore/follow.go",
		old: "w.place >= restsFrom, out",
		new: "true, out",
	},
}
