// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/store/memstore"
)

// frames scrolls and filters, and returns the times between frames in milliseconds.
const frames = `(async () => {
  const scroll = document.getElementById("scroll"), text = document.getElementById("text"), times = [];
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let last = await frame();
  const step = async (act) => { act(); const now = await frame(); times.push(now - last); last = now; };
  for (let i = 0; i < 150; i++) await step(() => { scroll.scrollTop += i % 3 ? 180 : 4000; });
  for (const word of ["9", "99", "", "order"]) {
    text.value = word;
    text.dispatchEvent(new Event("input"));
    for (let i = 0; i < 20; i++) await step(() => { scroll.scrollTop += 90; });
  }
  return times;
})()`

// measured returns a number that Chromium counts for the page.
func (p *page) measured(name string) float64 {
	p.Helper()
	var answer struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	p.check(p.b.Call(p.ctx, "Performance.getMetrics", map[string]any{}, &answer))
	for _, m := range answer.Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	p.Fatalf("Chromium does not report %s", name)
	return 0
}

// changing lets locks pass from owner to owner until stop is called, which returns how many did.
func (w *world) changing(names []string) (stop func() int) {
	ctx, cancel := context.WithCancel(w.Context())
	owners := []*fencelock.Client{client(w.T, w.store, &fencelock.Options{Owner: "even@node:1"}), client(w.T, w.store, &fencelock.Options{Owner: "odd@node:2"})}
	changed := make(chan int, 1)
	go func() {
		n := 0
		defer func() { changed <- n }()
		for held := map[string]*fencelock.Lease{}; ; n++ {
			name := names[n%len(names)]
			if l := held[name]; l != nil {
				_ = l.Unlock(context.Background())
			}
			l, err := owners[n/len(names)%2].Mutex(name, fencelock.Reason("because of "+name)).Lock(ctx)
			if err != nil {
				return
			}
			held[name] = l
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() int { cancel(); return <-changed }
}

// measureFrames scrolls and filters, prints times, and fails the test for what makes them long on every machine: what is
// in the page, and calls.
func (p *page) measureFrames() {
	p.Helper()
	var times []float64
	p.check(p.b.Call(p.ctx, "Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil))
	const calls = `performance.getEntriesByType("resource").filter((r) => r.name.includes("/v1/locks")).length`
	var called, calledBefore float64
	p.check(p.b.Eval(p.ctx, calls, &calledBefore))
	before, revision := p.measured("TaskDuration"), p.server.poller.Now().Snapshot.Revision
	p.check(p.b.Eval(p.ctx, frames, &times))
	each := 1000 * (p.measured("TaskDuration") - before) / float64(len(times))
	p.check(p.b.Eval(p.ctx, calls, &called))
	polls := p.server.poller.Now().Snapshot.Revision - revision
	slices.Sort(times)
	p95 := times[len(times)*95/100]
	figure.Print("serve-console-10k-frame-ms", p95, figure.AtMost(50))
	figure.Print("serve-console-10k-frame-cpu-ms", math.Round(10*each)/10, figure.AtMost(16)) // whatever else the machine does
	p.check(p.b.Call(p.ctx, "HeapProfiler.collectGarbage", map[string]any{}, nil))
	nodes := p.measured("Nodes")
	p.Logf("%d frames, %d polls, %v calls, %v nodes", len(times), polls, called-calledBefore, nodes)
	if polls == 0 {
		p.Error("nothing changed in the page while it was measured")
	}
	if nodes > 3000 {
		p.Errorf("%v nodes are in the page", nodes)
	}
	if n := called - calledBefore; n > float64(len(times)) {
		p.Errorf("%v calls for %d frames", n, len(times))
	}
}

// TestConsoleStaysFluid: scrolling and filtering ten thousand locks, some of which change
// all the time, does not make a reader wait.
func TestConsoleStaysFluid(t *testing.T) {
	store := memstore.New(nil)
	w := newWorld(t, store, func(cfg *Config) { unlimited(cfg); cfg.Every = time.Second })
	owner := client(t, store, &fencelock.Options{Owner: "worker@node:1"})
	var names []string // of those that change: on the screen, and all over the list
	for i := range 10_000 {
		if name := fmt.Sprintf("orders/%05d", i); i < 20 || i%100 == 0 {
			names = append(names, name)
		} else {
			w.holdWith(owner, name)
		}
	}
	stop := w.changing(names)
	p := openPage(w)
	p.await(`document.querySelector("#counts").textContent.includes("locks 10,000 ")`)
	p.picture("ten-thousand")
	p.measureFrames()
	p.run(`document.getElementById("text").value = ""; document.getElementById("text").dispatchEvent(new Event("input"))`)
	p.await(`document.getElementById("scroll").scrollTop === 0`)
	p.await(`document.querySelector("#counts").textContent.includes("locks 10,000 ")`)
	p.run(`document.getElementById("scroll").scrollTop = 1e9`)
	p.await(rowNames + `.endsWith("orders/09999")`)
	var rows int
	p.check(p.b.Eval(p.ctx, `document.querySelectorAll("#table tr").length`, &rows))
	if rows > 80 {
		t.Errorf("%d rows are in the page", rows)
	}
	p.run(`document.getElementById("scroll").scrollTop = 0`)
	p.await(`document.querySelector("#table").textContent.includes("even@node:1")`)
	p.await(`document.querySelector("#table").textContent.includes("odd@node:2")`)
	if n := stop(); n < len(names) {
		t.Errorf("%d locks changed", n)
	}
	p.noErrors()
}
