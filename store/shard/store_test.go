// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/shard"
)

func TestBadListsAreErrors(t *testing.T) {
	mem := memstore.New(nil)
	for want, members := range map[string][]shard.Member{
		"at least one":    nil,
		"two members":     {{Name: "a", Store: mem}, {Name: "a", Store: mem}},
		"has no store":    {{Name: "a"}},
		"1 to 64 letters": {{Name: "a/b", Store: mem}},
		`not ""`:          {{Store: mem}},
		"differ in Caps":  {{Name: "a", Store: mem}, {Name: "b", Store: memstore.New(&memstore.Options{NoPush: true})}},
		"itself a shard":  {{Name: "a", Store: made(t, shard.Member{Name: "x", Store: mem})}},
		"must stay":       {{Name: "a", Store: mem, Change: shard.Joins}},
		"unknown change":  {{Name: "a", Store: mem, Change: 7}},
		"stop all processes": {{Name: "a", Store: mem}, {Name: "b", Change: shard.Joins,
			Store: edited{mem, func(c *driver.Caps) { c.Reentry = false }}}},
		"no TTL suits": {
			{Name: "a", Store: memstore.New(&memstore.Options{MinTTL: 10 * time.Second})},
			{Name: "b", Store: memstore.New(&memstore.Options{MaxTTL: time.Second})},
		},
	} {
		if _, err := shard.New(members, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%v) returned %v, want an error with %q", members, err, want)
		}
	}
}

// edited is a store that says something else of itself.
type edited struct {
	driver.Store
	edit func(*driver.Caps)
}

func (e edited) Caps() driver.Caps {
	c := e.Store.Caps()
	e.edit(&c)
	return c
}

func TestCapsAreTheWeakest(t *testing.T) {
	strong := func(c *driver.Caps) {
		c.Durability, c.MinTTL, c.MaxTTL, c.Advice = driver.Durable, time.Second, 0, ""
	}
	full := made(t, shard.Member{Name: "a", Store: edited{memstore.New(nil), strong}}).Caps()
	edits := []func(*driver.Caps){
		func(c *driver.Caps) { c.Fencing = driver.NoFencing },
		func(c *driver.Caps) { c.Durability = driver.Volatile },
		func(c *driver.Caps) { c.Contended = driver.NoNotice },
		func(c *driver.Caps) { c.Linger = false },
		func(c *driver.Caps) { c.Shared = false },
		func(c *driver.Caps) { c.Reentry = false },
		func(c *driver.Caps) { c.Hold = false },
		func(c *driver.Caps) { c.Listing = false },
		func(c *driver.Caps) { c.Floor = false },
		func(c *driver.Caps) { c.Assumes = "Clocks agree." },
		func(c *driver.Caps) { c.MinTTL = 3 * time.Second },
		func(c *driver.Caps) { c.MaxTTL = time.Hour },
	}
	for i, weaken := range edits {
		want := full
		weaken(&want)
		weak := edited{memstore.New(nil), func(c *driver.Caps) { strong(c); weaken(c) }}
		for _, order := range [][2]driver.Store{{edited{memstore.New(nil), strong}, weak}, {weak, edited{memstore.New(nil), strong}}} {
			if got := made(t, shard.Member{Name: "a", Store: order[0]}, shard.Member{Name: "b", Store: order[1]}).Caps(); got != want {
				t.Errorf("edit %d: got %+v, want %+v", i, got, want)
			}
		}
	}
}

func TestWhatAnyMemberAssumesIsReported(t *testing.T) {
	assumes := func(text string) driver.Store {
		return edited{memstore.New(nil), func(c *driver.Caps) { c.Assumes = text }}
	}
	got := made(t, shard.Member{Name: "a", Store: assumes("")}, shard.Member{Name: "b", Store: assumes("Clocks agree.")},
		shard.Member{Name: "c", Store: assumes("Disks work.")}, shard.Member{Name: "d", Store: assumes("Clocks agree.")}).Caps().Assumes
	if want := "Clocks agree.\nDisks work."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRequireCorrectnessNamesTheMember(t *testing.T) {
	s := made(t, shard.Member{Name: "safe", Store: memstore.New(&memstore.Options{Grace: true})},
		shard.Member{Name: "unsafe", Store: memstore.New(nil)})
	_, err := fencelock.New(s, &fencelock.Options{Require: fencelock.Correctness})
	if !errors.Is(err, fencelock.ErrUnsupported) || !strings.Contains(fmt.Sprintf("%+v", err), "member unsafe: open it with") {
		t.Errorf("got %v, want a refusal with the advice for the member that is unsafe", err)
	}
}

// nameAt returns a lock name that a member keeps.
func nameAt(s *shard.Store, member string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("orders/", i); s.Owner(name) == member {
			return name
		}
	}
}

func client(t *testing.T, s driver.Store) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(s, &fencelock.Options{StoreTimeout: time.Second})
	must.OK(t, err)
	t.Cleanup(func() { c.Close(t.Context()) })
	return c
}

func lock(t *testing.T, c *fencelock.Client, name string) *fencelock.Lease {
	t.Helper()
	l, err := c.Mutex(name).Lock(t.Context())
	must.OK(t, err)
	return l
}

// strays returns member and name of each.
func strays(t *testing.T, s *shard.Store) []string {
	t.Helper()
	found, err := s.Strays(t.Context())
	must.OK(t, err)
	var texts []string
	for _, f := range found {
		texts = append(texts, f.Member+" "+f.Status.Name)
	}
	return texts
}

// TestListLeavesStraysOut: a lock that two members keep is listed where it is
// looked for, and there only.
func TestListLeavesStraysOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		old, after := over(t, []*memstore.Store{a}), over(t, []*memstore.Store{a, b})
		name := nameAt(after, "m1")
		first := client(t, old)
		lock(t, first, name)
		var names []string
		q := driver.ListQuery{Max: 10}
		for range 3 {
			page, err := after.List(t.Context(), q)
			must.OK(t, err)
			for _, st := range page.Locks {
				names = append(names, st.Name)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		if len(names) > 0 || q.Cursor != "" {
			t.Errorf("listed %q, cursor %q; want nothing and the end", names, q.Cursor)
		}
		if got := strays(t, after); !slices.Equal(got, []string{"m0 " + name}) {
			t.Errorf("got strays %q, want the one at m0", got)
		}
	})
}

func TestStraysNeedListing(t *testing.T) {
	blind := edited{memstore.New(nil), func(c *driver.Caps) { c.Listing = false }}
	if _, err := made(t, shard.Member{Name: "a", Store: blind}).Strays(t.Context()); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func TestUnknownMemberIsRefused(t *testing.T) {
	s := made(t, shard.Member{Name: "a", Store: memstore.New(nil)})
	_, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "b/0", ID: driver.NewSessionID(), TTL: time.Second})
	if !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
}

// Each member is fit for correctness in its own way; so are all together.
func TestDurableAndGraceMembersSurviveTogether(t *testing.T) {
	durable := edited{memstore.New(nil), func(c *driver.Caps) { c.Durability = driver.Durable }}
	grace := memstore.New(&memstore.Options{Grace: true})
	volatile := memstore.New(nil)
	for name, c := range map[string]struct {
		stores          []driver.Store
		survives, grace bool
	}{
		"durable":                 {[]driver.Store{durable, durable}, true, false},
		"grace":                   {[]driver.Store{grace, grace}, true, true},
		"durable, grace":          {[]driver.Store{durable, grace}, true, true},
		"grace, durable, grace":   {[]driver.Store{grace, durable, grace}, true, true},
		"durable, grace, neither": {[]driver.Store{durable, grace, volatile}, false, false},
		"neither, durable, grace": {[]driver.Store{volatile, durable, grace}, false, false},
	} {
		var members []shard.Member
		for i, s := range c.stores {
			members = append(members, shard.Member{Name: string(rune('a' + i)), Store: s})
		}
		s := made(t, members...)
		_, err := fencelock.New(s, &fencelock.Options{Require: fencelock.Correctness})
		if (err == nil) != c.survives || s.Caps().Grace != c.grace {
			t.Errorf("%s: got %v and grace %v", name, err, s.Caps().Grace)
		}
	}
}
