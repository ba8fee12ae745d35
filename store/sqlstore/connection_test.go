// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// odd are settings of connections under which statements mean something else, or return less.
var odd = []string{"sql_mode='EMPTY_STRING_IS_NULL'", "sql_select_limit=1"}

// onOddConnections runs a test on connections with each of the odd settings.
func onOddConnections(t *testing.T, f func(t *testing.T, s *sqlstore.Store)) {
	for _, setting := range odd {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			k := onMariaDB
			server := need(t, k.start)
			opts := k.space(t, k.connect(t, server.Port))
			k.source = func(port int) string {
				name, value, _ := strings.Cut(setting, "=")
				return mariaSource(port) + "&" + name + "=" + url.QueryEscape(value)
			}
			f(t, k.store(t, k.connect(t, server.Port), &opts))
		})
	}
}

// TestOddConnectionsKeepHolders: a holder whose session lives is not taken for a dead one.
func TestOddConnectionsKeepHolders(t *testing.T) {
	onOddConnections(t, func(t *testing.T, s *sqlstore.Store) {
		var readers []driver.Session
		for range 3 {
			ss := open(t, s)
			c := plain(1, "x")
			c.Terms.Mode = driver.Shared
			attempt(t, ss, c, driver.Granted)
			readers = append(readers, ss)
		}
		attempt(t, open(t, s), plain(1, "x"), driver.Busy)
		st, err := s.Inspect(ctxb, "x")
		if err != nil || len(st.Holders) != len(readers) {
			t.Errorf("got %d holders, %v, want %d", len(st.Holders), err, len(readers))
		}
		for _, ss := range readers {
			withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		}
	})
}

// TestOddConnectionsReportABreak: the holder learns of it at its next keep-alive.
func TestOddConnectionsReportABreak(t *testing.T) {
	onOddConnections(t, func(t *testing.T, s *sqlstore.Store) {
		ss := open(t, s)
		for seq, name := range []string{"x", "y"} { // the second is appended to the first
			out := attempt(t, ss, plain(uint64(seq), name), driver.Granted)
			_, err := s.Break(ctxb, name, out.Token)
			must.OK(t, err)
		}
		renewal, err := ss.KeepAlive(ctxb)
		if err != nil || !slices.Equal(renewal.Broken, []uint64{0, 1}) {
			t.Errorf("the renewal reports %v as broken, %v, want both claims", renewal.Broken, err)
		}
	})
}

// TestOddConnectionsKeepTheQueue: a claim that leaves takes no other with it.
func TestOddConnectionsKeepTheQueue(t *testing.T) {
	onOddConnections(t, func(t *testing.T, s *sqlstore.Store) {
		all := []driver.Session{open(t, s), open(t, s), open(t, s), open(t, s)}
		attempt(t, all[0], queued(1, "x"), driver.Granted)
		for _, ss := range all[1:] {
			attempt(t, ss, queued(1, "x"), driver.Queued)
		}
		withdraw(t, all[2], driver.Withdrawal{Seq: 1, Name: "x", Tombstone: true}, driver.WasQueued)
		if st, err := s.Inspect(ctxb, "x"); err != nil || st.Waiting != 2 {
			t.Errorf("%d wait, %v, want 2", st.Waiting, err)
		}
		for _, i := range []int{0, 1, 3} {
			withdraw(t, all[i], driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		}
	})
}

// TestOddConnectionsListAndSweep: all locks are listed, and Check finds all tables.
func TestOddConnectionsListAndSweep(t *testing.T) {
	onOddConnections(t, func(t *testing.T, s *sqlstore.Store) {
		use(t, s)
		if findings, err := s.Check(ctxb); err != nil || has(findings, "tables") {
			t.Errorf("Check: %v, %v, want all tables", findings, err)
		}
	})
}
