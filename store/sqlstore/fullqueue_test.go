// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// TestQueueOfNotificationsIsFull: PostgreSQL refuses the commit of a statement that notifies while its
// queue of notifications is full, because of any client of the cluster. Notifications are hints, so
// locks are passed on without them. The function here answers as the server does; to fill the
// queue takes 8 GB.
func TestQueueOfNotificationsIsFull(t *testing.T) {
	t.Parallel()
	k := onPostgres
	server := need(t, k.start)
	db := k.connect(t, server.Port)
	opts := k.space(t, db)
	must.OK(t, exec(db, "CREATE SCHEMA full_queue"))
	must.OK(t, exec(db, `CREATE FUNCTION full_queue.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$`))
	k.source = func(port int) string { return pgSource(port) + "&search_path=full_queue,pg_catalog,public" }
	s := k.store(t, k.connect(t, server.Port), &opts)
	shared := func(seq uint64, name string) *driver.Claim {
		c := plain(seq, name)
		c.Terms.Mode = driver.Shared
		return c
	}
	watched := plain(3, "c")
	watched.Watch = true
	one, two := open(t, s), open(t, s)
	for _, claim := range []*driver.Claim{plain(1, "a"), shared(2, "b"), watched} { // a release in one statement, in two, and a notice
		attempt(t, one, claim, driver.Granted)
		attempt(t, two, queued(claim.Seq, claim.Name), driver.Queued)
		withdraw(t, one, driver.Withdrawal{Seq: claim.Seq, Name: claim.Name}, driver.WasGranted)
		withdraw(t, two, driver.Withdrawal{Seq: claim.Seq, Name: claim.Name}, driver.WasGranted)
	}
}
