// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/store/memstore"
)

// hideable lets a test hide the page, as a browser does with a page in the background, counts its calls, and lets it call
// its timers. still counts the frames since the last answer: an answer may be drawn in the next one, and drawing may call.
const hideable = `
window.away = false; window.isHidden = false; window.calls = 0; window.under = 0; window.still = 0; window.timers = [];
Object.defineProperty(document, "hidden", { get: () => window.isHidden });
window.hide = (on) => { window.isHidden = on; document.dispatchEvent(new Event("visibilitychange")); };
const fetched = window.fetch, timed = window.setTimeout;
window.fetch = async (...args) => {
  window.calls++; window.under++;
  try {
    if (window.away) throw new TypeError("away");
    return await fetched(...args);
  } finally { window.under--; }
};
(function tick() { window.still = window.under ? 0 : window.still + 1; requestAnimationFrame(tick); })();
window.setTimeout = (f, ms) => ms < 2000 ? timed(f, ms) : window.timers.push(f);
`

// viewers waits until so many pages follow the events.
func (p *page) viewers(n int64) {
	p.Helper()
	p.until(fmt.Sprint(n, " viewers"), func() bool {
		var h storeHealth
		p.get("/v1/store", &h, nil)
		return h.Poll.Viewers == n
	})
}

// quiet fails the test if the page calls the server although the store changes.
func (p *page) quiet(when string) {
	p.Helper()
	p.viewers(0)
	p.run(`window.still = 0`)
	p.await(`still > 5`) // what was asked before is answered and drawn
	p.run(`window.calls = 0`)
	revision := p.server.poller.Now().Snapshot.Revision
	p.hold("later", "later/"+when)
	p.until("some polls", func() bool { return p.server.poller.Now().Snapshot.Revision > revision+1 })
	p.run(`for (const f of window.timers.splice(0)) f()`)
	var calls int
	p.check(p.b.Eval(p.ctx, `window.calls`, &calls))
	if calls > 0 {
		p.Errorf("%s: %d calls", when, calls)
	}
}

// TestConsoleInTheBackgroundDoesNotCall: a page that is not seen, or that is paused, does not call the server, even if the server
// was away, and follows the events once when it is seen again.
func TestConsoleInTheBackgroundDoesNotCall(t *testing.T) {
	w := newWorld(t, memstore.New(nil), unlimited)
	w.hold("ann", "first")
	p := openPage(w)
	p.await(rowNames + ` === "first"`)
	p.run(hideable)
	p.run(`hide(true)`)
	p.quiet("hidden")
	p.run(`hide(false); hide(true); hide(false); hide(true)`)
	p.quiet("shown for a moment")
	p.run(`away = true; hide(false)`)
	p.await(`timers.length > 0`) // it will try again
	p.run(`hide(true)`)
	p.quiet("hidden while the server is away")
	p.run(`away = false; hide(false)`)
	p.await(rowNames + `.includes("later/hidden while the server is away")`)
	p.viewers(1)
	p.run(`document.getElementById("pause").click()`)
	p.await(`document.getElementById("live-text").textContent === "paused"`)
	p.quiet("paused")
	p.await(`!` + rowNames + `.includes("later/paused") && document.getElementById("banner").hidden`)
	p.run(`document.getElementById("pause").click()`)
	p.await(rowNames + `.includes("later/paused") && document.getElementById("live-text").textContent === "live"`)
	p.viewers(1)
	p.noErrors()
}
