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
}
