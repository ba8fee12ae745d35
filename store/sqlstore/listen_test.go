// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestDeafForAWhile: a notification that is late for once makes the store poll, and Check
// says so. It listens again later.
func TestDeafForAWhile(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	b := onPostgres.behind(t, server)
	sqlstore.RetryListening(b.Store, time.Millisecond)
	heal := make(chan struct{})
	healed := sync.OnceFunc(func() { close(heal) })
	t.Cleanup(healed)
	b.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
		if !toServer && bytes.Contains(data, []byte("hello ")) {
			<-heal
		}
		return true
	})
	holder := client(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &b.opts), 50*time.Second)
	waiter := client(t, b, 50*time.Second)
	l := lock(t, holder, "x")
	got := make(chan *fencelock.Lease, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { got <- lock(t, waiter, "x") })
	deaf := func(want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
			findings, err := b.Check(ctxb)
			must(t, err)
			if has(findings, "deaf") == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("Check found %v, want deaf to be %t", findings, want)
			}
		}
	}
	deaf(true)
	healed()
	deaf(false)
	must(t, l.Unlock(ctxb))
	if next := <-got; next == nil || next.Token() <= l.Token() {
		t.Errorf("the next holder is %v after token %v", next, l.Token())
	}
}
