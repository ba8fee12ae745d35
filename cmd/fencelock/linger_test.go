// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// TestLingeringLocksAreShown: ls, top and why show that a lock may be free on request.
func TestLingeringLocksAreShown(t *testing.T) {
	t.Parallel()
	const want = "lingers, free on request"
	st := lockAt("tenant/7", time.Minute, 10*time.Second, 1)
	st.Holders[0].Linger = time.Second
	st.Holders[0].Record.Reason = "sync"
	locks := []fencelock.Status{st}
	for _, wide := range []bool{false, true} {
		row := listRow(&st, wide)
		if got := row[len(row)-1]; got != want+"; sync" {
			t.Errorf("wide %v: reason %q", wide, got)
		}
	}
	s := &topScreen{width: 140, height: 20}
	s.took(locks, nil, time.Now())
	contains(t, s.render(), want)
	var out bytes.Buffer
	a := &app{out: &out, format: "table"}
	if circles, err := a.explainAll(locks, ""); circles || err != nil {
		t.Fatal(circles, err)
	}
	contains(t, out.String(), "held by ann@host:1 for 1m00s (sync), where it "+want+", which waits for no lock")
}
