// SPDX-License-Identifier: Apache-2.0

package main

// sqlMutants break what sqlstore demands of a database and its connections.
var sqlMutants = []mutant{
	{
		name: "sql-handle-without-autocommit", catcher: testOf("store/sqlstore", "TestHandleWithoutAutocommitIsRefused"), file: "store/sqlstore/store.go",
		old: "	if !commits {\n",
		new: "	if !commits && !mutated(\"sql-handle-without-autocommit\") {\n",
	},
	{
		name: "sql-open-without-autocommit", catcher: testOf("store/sqlstore", "TestOpenedStoreCommits"), file: "store/sqlstore/open.go",
		old: "_, err = conn.(sqldriver.ExecerContext).ExecContext(ctx, text, nil)",
		new: `_, err = conn.(sqldriver.ExecerContext).ExecContext(ctx, map[bool]string{true: "DO 1", false: text}[mutated("sql-open-without-autocommit")], nil)`,
	},
}
