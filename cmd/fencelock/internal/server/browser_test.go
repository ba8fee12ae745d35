// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/browser"
	"github.com/fencelock/fencelock/internal/must"
)

var pictures = flag.String("console.pictures", "", "write pictures of the console into this folder")

// page is the console in a browser.
type page struct {
	*world
	b   *browser.Browser
	ctx context.Context
}

// openPage opens the console. It skips the test if there is no browser.
func openPage(w *world) *page {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
	w.Cleanup(cancel)
	b, err := browser.Start(ctx)
	if errors.Is(err, browser.ErrMissing) {
		w.Skip(err)
	}
	must.OK(w, err)
	w.Cleanup(b.Close)
	p := &page{w, b, ctx}
	p.screen(1280, 800, false, "light")
	p.check(b.Open(ctx, w.web.URL+"/"))
	return p
}

func (p *page) check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err, p.b.Errors())
	}
}

func (p *page) screen(width, height int, phone bool, scheme string) {
	p.Helper()
	p.check(p.b.Screen(p.ctx, width, height, phone, scheme))
}

func (p *page) await(expression string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	p.check(p.b.Await(ctx, expression))
}

func (p *page) run(code string) { p.Helper(); p.check(p.b.Eval(p.ctx, code, nil)) }

// keys presses keys and types texts.
func (p *page) keys(keys ...string) {
	p.Helper()
	for _, k := range keys {
		p.check(p.b.Key(p.ctx, k))
	}
}

// keepsFocus fails the test if new data take the focus from the reader.
func (p *page) keepsFocus(selector string) {
	p.Helper()
	p.run(fmt.Sprintf(`document.querySelector(%q).focus(); window.focused = document.activeElement`, selector))
	revision := p.server.poller.Now().Snapshot.Revision
	p.until("some polls", func() bool { return p.server.poller.Now().Snapshot.Revision > revision+2 })
	var kept bool
	p.check(p.b.Eval(p.ctx, `window.focused.isConnected && document.activeElement === window.focused`, &kept))
	if !kept {
		p.Errorf("%s lost the focus", selector)
	}
}

// picture writes a picture if pictures are wanted.
func (p *page) picture(name string) {
	p.Helper()
	if *pictures != "" {
		p.check(p.b.Screenshot(p.ctx, filepath.Join(*pictures, name+".png")))
	}
}

// noErrors fails the test if the page reported an error, such as code that the policy
// rejected.
func (p *page) noErrors() {
	p.Helper()
	for _, e := range p.b.Errors() {
		p.Error(e)
	}
}

const rowNames = `[...document.querySelectorAll("#table tr[data-lock]")].map((r) => r.dataset.lock).join(" ")`

// demo fills a store with what an operator may find one day.
func (w *world) demo() {
	w.Helper()
	at := func(owner string) *fencelock.Client {
		return client(w.T, w.store, &fencelock.Options{Owner: owner, Labels: map[string]string{"team": "billing"}})
	}
	ann, bob, eve := at("ann@web-1:4711"), at("bob@ci-7:99"), at("eve@laptop:7")
	hold := func(c *fencelock.Client, name, reason string) {
		if _, err := c.Mutex(name, fencelock.Reason(reason)).Lock(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
	hold(ann, "billing/nightly", "monthly invoices")
	hold(bob, "deploy", "release 4.2")
	hold(eve, "schema/migrate", "adds an index")
	hold(at("mallory@<b>host</b>:1"), "<img src=x onerror=alert(1)>", "</td><script>alert(1)</script>")
	for i := range 24 {
		hold(at(fmt.Sprintf("worker@node-%d:%d", i%5, 1000+i)), fmt.Sprintf("orders/%d", 4200+i), "charge the card")
	}
	for i := range 6 {
		w.queue(at(fmt.Sprintf("worker@node-%d:%d", i, 2000+i)), "billing/nightly")
	}
	w.queue(ann, "deploy")          // ann holds billing/nightly
	w.queue(bob, "schema/migrate")  // bob holds deploy
	w.queue(eve, "billing/nightly") // eve holds schema/migrate
	w.queue(at("ops@bastion:12"), "deploy")
	for i := range 5 { // a past for the time line
		c := at(fmt.Sprintf("import@batch-%d:77", i%3))
		l, err := c.Mutex("import", fencelock.Reason("file "+fmt.Sprint(i))).Lock(w.Context())
		must.OK(w, err)
		w.until("it is seen", func() bool {
			st := w.server.poller.Current(w.Context()).Snapshot
			return st != nil && st.Lock("import") != nil && st.Lock("import").Holders[0].Token == l.Token()
		})
		if *pictures != "" {
			<-time.After(4 * time.Second) // a past that can be seen
		}
		if i < 4 {
			must.OK(w, l.Unlock(w.Context()))
		}
	}
}

// tabReachesARowOfAnotherList: the tab key reaches one row, even if the lock that is open is not in
// the list.
func (p *page) tabReachesARowOfAnotherList() {
	p.Helper()
	const stops = `[...document.querySelectorAll("#table tr[data-lock]")].filter((r) => r.tabIndex === 0).map((r) => r.dataset.lock).join(" ")`
	p.await(stops + ` === "import"`)
	p.run(`location.hash = "lock=not-in-the-list"`)
	p.await(`document.querySelector("#table tr.chosen") === null && ` + stops + ` === "billing/nightly"`)
	p.keys("Escape")
}

// deadlockInSight waits until the arc that closes the cycle is inside of the picture, and the deadlock is before all other waits.
func (p *page) deadlockInSight() {
	p.Helper()
	p.screen(1280, 800, false, "light")
	p.picture("deadlock")
	p.await(`(() => { const svg = document.querySelector("#picture svg"), box = svg.viewBox.baseVal; return svg.querySelectorAll(".node.red").length === 6 &&
		[...svg.querySelectorAll(".edge.red")].every((e) => { const b = e.getBBox(); return b.y >= box.y && b.y + b.height <= box.y + box.height; }); })()`)
}

// wrongAddress opens an address that was cut in the middle of a letter: a view is shown all the same.
func (p *page) wrongAddress() {
	p.Helper()
	p.run(`location.hash = "lock=%E0%A4%A"`)
	p.await(`document.querySelector('nav a[aria-current="page"]') !== null`)
}

// TestConsoleInABrowser: an operator finds the contended lock, its queue and the deadlock,
// by mouse and by keyboard, in both languages, and nothing that a program wrote into a lock
// is taken for markup.
func TestConsoleInABrowser(t *testing.T) {
	w := newWorld(t, onRedis(t, startRedis(t)), unlimited)
	w.demo()
	w.until("all are there", func() bool { l := w.list(""); return l.Total == 29 && l.Waiting == 10 })
	p := openPage(w)
	p.await(rowNames + `.startsWith("billing/nightly deploy schema/migrate")`)
	p.await(`document.querySelector("#deadlocks").textContent === "1"`)
	p.await(`document.querySelector("#counts").textContent.includes("locks 29 ")`)
	p.await(`document.querySelector("#table").textContent.includes("<img src=x onerror=alert(1)>")`)
	p.picture("light")
	p.screen(1280, 800, false, "dark")
	p.picture("dark")

	p.run(`document.getElementById("text").focus()`)
	p.keys("4", "2", "1", "7")
	p.await(rowNames + ` === "orders/4217"`)
	p.run(`document.getElementById("text").value = ""; document.getElementById("text").dispatchEvent(new Event("input"))`)
	p.await(rowNames + `.startsWith("billing/nightly")`)
	p.keys("ArrowDown", "ArrowDown", "Enter")
	p.await(`document.querySelector("#detail h2")?.textContent === "deploy"`)
	p.await(`document.querySelectorAll("#detail .queue li").length === 2`)
	p.keys("Escape")
	p.await(`document.getElementById("detail").hidden && document.activeElement.dataset.lock === "deploy"`)
	p.run(`document.querySelector("#table th.lock button").click()`)
	p.await(rowNames + `.startsWith("<img src=x onerror=alert(1)> billing/nightly") && document.getElementById("sort").value === "name" && document.querySelector("#table th.lock").ariaSort === "ascending"`)
	p.run(`document.querySelector("#table th.waiting button").click()`)
	p.await(rowNames + `.startsWith("billing/nightly deploy") && document.querySelectorAll("#table th[aria-sort]").length === 1`)
	p.run(`location.hash = "lock=import"`)
	p.await(`document.querySelector("#table tr.chosen")?.dataset.lock === "import"`)
	p.await(`document.querySelectorAll("#detail .timeline .span").length === 5`)
	p.keepsFocus("#detail .card button")
	p.picture("detail")
	p.keys("Escape")
	p.tabReachesARowOfAnotherList()

	p.run(`location.hash = "graph"`)
	p.await(`document.querySelectorAll("#picture .node.red").length === 6 && document.querySelector(".cycle li").textContent.includes("billing/nightly")`)
	p.deadlockInSight()
	p.run(`location.hash = "sessions"`)
	p.await(`document.querySelectorAll("#session-list tbody tr").length > 20`)
	p.keepsFocus("#session-list button")
	p.picture("sessions")
	p.run(`location.hash = "store"`)
	p.await(`document.querySelectorAll("#store-body .promises li").length > 5`)
	p.picture("store")
	p.run(`location.hash = "locks"; document.getElementById("language").click()`)
	p.await(`document.documentElement.lang === "zh-CN" && document.querySelector("#table th").textContent === "锁"`)
	p.picture("chinese")
	p.run(`document.getElementById("language").click()`)

	p.screen(390, 844, true, "light")
	p.await(`document.querySelectorAll("#table tr[data-lock]").length > 8`)
	p.picture("phone")
	p.run(`location.hash = "lock=billing/nightly"`)
	p.await(`document.querySelectorAll("#detail .queue li").length === 7`)
	p.picture("phone-detail")
	p.wrongAddress()
	p.noErrors()
}
