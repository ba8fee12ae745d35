// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/fencelock/fencelock/driver"
)

var inspectCases = []spec{
	{"I1", "holder", nil, i1Holder},
	{"I1", "shared holders", all(limits), i1SharedHolders},
	{"I1", "ends with its MaxHold", all(holds), i1MaxHold},
	{"I1", "queue", all(queue), i1Queue},
	{"I1", "long queue", all(queue), i1LongQueue},
	{"I2", "never used", nil, i2NeverUsed},
	{"I2", "withdrawn", nil, i2Withdrawn},
	{"I2", "expired", nil, i2Expired},
	{"I2", "left the queue", all(queue), i2LeftTheQueue},
	{"I2", "not listed", all(listing), i2NotListed},
	{"I2", "a limit alone", all(listing, limits), i2LimitAlone},
	{"I3", "pages", all(listing), i3Pages},
	{"I3", "prefix", all(listing), i3Prefix},
	{"I3", "what Inspect shows", all(listing), i3WhatInspectShows},
	{"I3", "kept and waited for", all(listing, holds, queue), i3KeptAndWaitedFor},
}

var fullRecord = driver.Record{
	Owner:  "ann@host:4711",
	Reason: `nightly "export"; it's 100% {unsafe} <b>\n</b> — 日本 🔒`,
	Trace:  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	Labels: map[string]string{"job": "export", "": "empty", "k v": "a=b,c"},
}

func (t *scene) sameRecord(what string, got, want driver.Record) {
	if !reflect.DeepEqual(got, want) {
		t.errorf("%s has record\n\t%+v, want\n\t%+v", what, got, want)
	}
}

// oneHolder returns the only holder of a lock.
func (t *scene) oneHolder(name string) driver.Holder {
	st := t.inspect(name)
	if len(st.Holders) != 1 {
		t.fatalf("got holders %v, want one", st.Holders)
	}
	return st.Holders[0]
}

func i1Holder(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	w := a.grant(name, record(fullRecord))
	t.elapseKeeping(t.short/2, a)
	h := t.oneHolder(name)
	if h.Claim != w.id() || h.Token != w.token || h.Mode != driver.Exclusive || h.Weight != 1 || h.Reentry != "" || h.Kept {
		t.errorf("got holder %+v, want the exclusive claim %v with token %v", h, w.id(), w.token)
	}
	t.sameRecord("the holder", h.Record, fullRecord)
	if h.Age < t.short/2-t.slack || h.Age > t.short/2+t.soon {
		t.errorf("got age %v, want about %v", h.Age, t.short/2)
	}
	if h.EndsIn <= 0 || h.EndsIn > a.ttl {
		t.errorf("the grant ends in %v, want more than 0 and at most the TTL %v", h.EndsIn, a.ttl)
	}
	for _, notified := range t.open(name).want(name).busy().Holders {
		t.sameRecord("the holder in a busy answer", notified.Record, fullRecord)
	}
}

func i1SharedHolders(t *scene) {
	name := t.name("lock")
	var held []*request
	for i := range 6 {
		held = append(held, t.open(name).grant(name, share(int64(i+1), 100)))
	}
	t.mustHold(name, held...)
	weights := map[driver.ClaimID]int64{}
	for _, h := range t.inspect(name).Holders {
		if h.Mode != driver.Shared {
			t.errorf("holder %v is %v, want shared", h.Claim, h.Mode)
		}
		weights[h.Claim] = h.Weight
	}
	for i, w := range held {
		if weights[w.id()] != int64(i+1) {
			t.errorf("holder %v has weight %d, want %d", w, weights[w.id()], i+1)
		}
	}
}

func i1MaxHold(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name, maxHold(t.short/2))
	if in := t.oneHolder(name).EndsIn; in <= 0 || in > t.short/2 {
		t.errorf("the grant ends in %v, want more than 0 and at most its MaxHold %v", in, t.short/2)
	}
}

func i1Queue(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	a.grant(name)
	first := t.open(name).queue(name, record(fullRecord))
	t.elapseKeeping(t.short/2, a, first.s)
	second := t.open(name).queue(name)
	st := t.inspect(name)
	if st.Waiting != 2 || len(st.Waiters) != 2 {
		t.fatalf("got %d waiting, %d of them reported; want 2 and 2", st.Waiting, len(st.Waiters))
	}
	for i, w := range []*request{first, second} {
		got := st.Waiters[i]
		if got.Claim != w.id() || got.Mode != driver.Exclusive || got.Weight != 1 {
			t.errorf("waiter %d is %+v, want the exclusive claim %v", i, got, w)
		}
		t.sameRecord("the waiter", got.Record, *w.claim.Terms.Record)
	}
	for i, want := range []time.Duration{t.short / 2, 0} {
		if age := st.Waiters[i].Age; age < want-t.slack || age < 0 || age > want+t.soon {
			t.errorf("waiter %d has age %v, want about %v", i, age, want)
		}
	}
}

func i1LongQueue(t *scene) {
	const n = driver.MaxWaitersReported + 5
	name := t.name("lock")
	s := t.open(name)
	s.grant(name)
	var waiters []*request
	for range n {
		waiters = append(waiters, s.queue(name))
	}
	st := t.inspect(name)
	if st.Waiting != n || len(st.Waiters) != driver.MaxWaitersReported {
		t.fatalf("got %d waiting, %d of them reported; want %d and %d", st.Waiting, len(st.Waiters), n, driver.MaxWaitersReported)
	}
	for i, w := range st.Waiters {
		if w.Claim != waiters[i].id() {
			t.fatalf("waiter %d is %v, want %v", i, w.Claim, waiters[i])
		}
	}
}

func i2NeverUsed(t *scene) { t.mustBeFree(t.name("never")) }

func i2Withdrawn(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	t.open(name).want(name).busy()
	w.withdraw()
	t.mustBeFree(name)
	w.s.want(name).mustFind(driver.WasAbsent)
	t.mustBeFree(name)
}

func i2Expired(t *scene) {
	name := t.name("lock")
	a := t.openShort(name)
	a.grant(name)
	t.elapse(a.ttl + t.slack)
	t.mustList(name, 10)
	t.mustBeFree(name)
}

func i2LeftTheQueue(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.open(name).queue(name)
	w.withdraw()
	holder.withdraw()
	t.mustBeFree(name)
}

func i2NotListed(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	t.mustList(name, 10, name)
	w.withdraw()
	t.mustList(name, 10)
}

func i2LimitAlone(t *scene) {
	name := t.name("lock")
	t.setLimit(name, 3)
	t.mustBeFree(name)
	t.mustList(name, 10)
}

// maxPages bounds a listing, so that a cursor that does not move is found.
const maxPages = 100_000

// list returns all pages of a listing.
func (t *scene) list(prefix string, perPage int) []driver.Status {
	var found []driver.Status
	q := driver.ListQuery{Prefix: prefix, Max: perPage}
	for range maxPages {
		ctx, cancel := t.bounded()
		page, err := t.store.List(ctx, q)
		cancel()
		if err != nil {
			t.fatalf("List(%+v): %v", q, err)
		}
		if len(page.Locks) > perPage {
			t.fatalf("List(%+v) returned %d locks, want at most %d", q, len(page.Locks), perPage)
		}
		found = append(found, page.Locks...)
		if page.Next == "" {
			return found
		}
		q.Cursor = page.Next
	}
	t.fatalf("List of %q has not ended after %d pages", prefix, maxPages)
	return nil
}

// mustList fails unless the listing has exactly these names, each once. A store
// that cannot list is left alone, so that other cases may use it.
func (t *scene) mustList(prefix string, perPage int, names ...string) {
	if !t.caps.Listing {
		return
	}
	count := map[string]int{}
	for _, st := range t.list(prefix, perPage) {
		count[st.Name]++
	}
	for _, name := range names {
		if count[name] != 1 {
			t.errorf("List with prefix %q showed %q %d times, want once", prefix, name, count[name])
		}
		delete(count, name)
	}
	for name := range count {
		t.errorf("List with prefix %q showed %q, want it left out", prefix, name)
	}
}

func i3Pages(t *scene) {
	var names []string
	for i := range 23 {
		names = append(names, t.name(fmt.Sprint("page/", i)))
	}
	t.grantAll(names)
	for _, perPage := range []int{1, 4, 23, 100} {
		t.mustList(t.name("page/"), perPage, names...)
	}
}

func i3Prefix(t *scene) {
	t.grantAll(t.allNames())
	prefixes := []string{"a", "A", "a/", "a/b", "*", "a*", "a?", "a[", "[ab]", "{a}", "{", "^a", "a%", "a_", "a\\", "日", "xx", "x", "none"}
	for _, p := range prefixes {
		var want []string
		for _, name := range t.allNames() {
			if prefix := t.name(p); len(name) >= len(prefix) && name[:len(prefix)] == prefix {
				want = append(want, name)
			}
		}
		t.mustList(t.name(p), 7, want...)
	}
}

func i3WhatInspectShows(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name, record(fullRecord))
	got := t.list(name, 10)
	if len(got) != 1 || len(got[0].Holders) != 1 {
		t.fatalf("got %+v, want one lock with one holder", got)
	}
	h := got[0].Holders[0]
	if h.Claim != w.id() || h.Token != w.token {
		t.errorf("got holder %v with token %v, want %v with %v", h.Claim, h.Token, w, w.token)
	}
	t.sameRecord("the listed holder", h.Record, fullRecord)
}

func i3KeptAndWaitedFor(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	w.remove(driver.Withdrawal{KeepFor: t.short})
	t.mustList(name, 10, name)
	t.open(name).queue(name)
	t.mustList(name, 10, name)
}
