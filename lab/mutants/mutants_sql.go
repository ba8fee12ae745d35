// SPDX-License-Identifier: Apache-2.0

package main

// sqlMutants break what sqlstore demands of a database and its connections.
var sqlMutants = []mutant{
	{
		name: "sql-handle-without-autocommit", catcher: testOf("store/sqlstore", "TestHandleWithoutAutocommitIsRefused"), file: "store/sqlstore/store.go",
		old: "IF(@@autocommit = 1, ",
		new: "IF(TRUE, ",
	},
	{
		name: "sql-open-without-autocommit", catcher: testOf("store/sqlstore", "TestOpenedStoreCommits"), file: "store/sqlstore/open.go",
		old: "range settledBy {",
		new: "range settledBy[:1] {",
	},
	{
		name: "sql-sessions-cut-short", catcher: testOf("store/sqlstore", "TestOddConnectionsKeepHolders"), file: "store/sqlstore/load.go",
		old: "\")\" + allRows",
		new: "\")\"",
	},
	{
		name: "sql-full-queue-of-notifications", catcher: testOf("store/sqlstore", "TestQueueOfNotificationsIsFull"), file: "store/sqlstore/change.go",
		old: "		if code(err) != queueFull {\n",
		new: "		if true {\n",
	},
	{
		name: "sql-lost-grace-is-forgotten", catcher: testOf("store/sqlstore", "TestMemoryOfSettings"), file: "store/sqlstore/settings.go",
		old: "if r.grace >= m.seen.grace || inc == m.graceIn {",
		new: "if true {",
	},
	{
		name: "sql-weaker-settings-are-asked-for-again", catcher: testOf("store/sqlstore", "TestMemoryOfSettings"), file: "store/sqlstore/settings.go",
		old: "	if m.maxIn != inc {\n",
		new: "	if true {\n",
	},
	{
		name: "sql-grace-of-the-first-process", catcher: testOf("store/sqlstore", "TestGraceIsSwitchedOnLive"), file: "store/sqlstore/settings.go",
		old: "r := m.rules.and(s.memory.knows(noInc))",
		new: "r := s.memory.knows(noInc)",
	},
	{
		name: "sql-grace-is-not-switched-on", catcher: testOf("store/sqlstore", "TestGraceIsSwitchedOnLive"), file: "store/sqlstore/session.go",
		old: "if asked.and(m.rules) != m.rules {",
		new: "if false && asked.and(m.rules) != m.rules {",
	},
	{
		name: "sql-keep-alive-that-teaches-nothing", catcher: testOf("store/sqlstore", "TestProcessRemembersGrace"), file: "store/sqlstore/session.go",
		old: "	s.memory.learn(ss.inc, rules{answer & 1, answer >> 1})\n",
		new: "",
	},
	{
		name: "sql-grace-period-of-one-who-knows-less", catcher: testOf("store/sqlstore", "TestRestOfTheGracePeriod"), file: "store/sqlstore/settings.go",
		old: "\"strengthen\", r.grace, r.maxTTL, r.maxTTL,",
		new: "\"strengthen\", r.grace, 0, r.maxTTL,",
	},
	{
		name: "sql-weaker-than-a-session-asks-for", catcher: testOf("store/sqlstore", "TestConfigure"), file: "store/sqlstore/configure.go",
		old: "Scan(&more); err != nil || more > 0 {",
		new: "Scan(&more); err != nil {",
	},
	{
		name: "sql-weaker-in-a-grace-period", catcher: testOf("store/sqlstore", "TestLossInAGracePeriod"), file: "store/sqlstore/configure.go",
		old: "&r.maxTTL); err != nil || us > 0 {",
		new: "&r.maxTTL); err != nil {",
	},
	{
		name: "sql-restart-is-not-learned", catcher: testOf("store/sqlstore", "TestFlatLockComparesEverything"), file: "store/sqlstore/session.go",
		old: "		ss.learnServer(server)\n",
		new: "",
	},
	{
		name: "sql-wait-without-a-read", catcher: testOf("store/sqlstore", "TestGrantBeforeTheWaitIsFound"), file: "store/sqlstore/waker_listen.go",
		old: "!soon && ss.mayHaveMissed(w, since)",
		new: "!soon && false",
	},
	{
		name: "sql-holders-of-long-ago", catcher: testOf("store/sqlstore", "TestClaimInAQuickQueueIsQueuedByOneStatement"), file: "store/sqlstore/recent.go",
		old: " && len(l.by) > 0 && time.Since(l.held) < holdersFor",
		new: "",
	},
}
