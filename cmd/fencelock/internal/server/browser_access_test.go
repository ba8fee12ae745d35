// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fencelock/fencelock"
)

// accessible is an element as a screen reader gets it from the browser.
type accessible struct {
	Ignored    bool
	Role, Name struct{ Value string }
	Properties []struct {
		Name  string
		Value struct{ Value any }
	}
}

// elements returns what a screen reader gets of the page.
func (p *page) elements() []accessible {
	p.Helper()
	var tree struct{ Nodes []accessible }
	p.check(p.b.Call(p.ctx, "Accessibility.getFullAXTree", map[string]any{}, &tree))
	return slices.DeleteFunc(tree.Nodes, func(e accessible) bool { return e.Ignored })
}

// has fails the test if no element has the role and the name.
func (p *page) has(role, name string) {
	p.Helper()
	if !slices.ContainsFunc(p.elements(), func(e accessible) bool { return e.Role.Value == role && e.Name.Value == name }) {
		p.Errorf("a screen reader finds no %s that is called %q", role, name)
	}
}

// named fails the test if a screen reader cannot name something that can be used.
func (p *page) named(view string) {
	p.Helper()
	used := []string{"button", "link", "searchbox", "textbox", "checkbox", "combobox", "grid", "row", "columnheader", "dialog", "navigation", "complementary", "region", "img"}
	count := 0
	for _, e := range p.elements() {
		focusable := slices.ContainsFunc(e.Properties, func(q struct {
			Name  string
			Value struct{ Value any }
		}) bool {
			return q.Name == "focusable" && q.Value.Value == true
		})
		if !slices.Contains(used, e.Role.Value) && (!focusable || e.Role.Value == "RootWebArea" || e.Role.Value == "main" || e.Role.Value == "scrollable") {
			continue
		}
		if count++; e.Name.Value == "" {
			p.Errorf("%s: a screen reader has no name for a %s", view, e.Role.Value)
		}
	}
	if count < 10 {
		p.Errorf("%s: only %d elements", view, count)
	}
}

// TestConsoleForScreenReaders: in every view the browser gives a screen reader a role and a name for all that can be used, the
// list is a grid with its number of rows, and deadlocks and the state of the connection are announced.
func TestConsoleForScreenReaders(t *testing.T) {
	o := newOperated(t, onRedis(t, startRedis(t)))
	ann, bob := client(t, o.store, &fencelock.Options{Owner: "ann@web-1:4711"}), client(t, o.store, &fencelock.Options{Owner: "bob@ci-7:99"})
	o.holdWith(ann, "deploy")
	o.holdWith(bob, "schema/migrate")
	o.queue(ann, "schema/migrate")
	o.queue(bob, "deploy")
	p := openPage(o.world)
	p.await(`document.getElementById("dialog").open && document.querySelector("#dialog input")`)
	p.has("dialog", "Sign in")
	p.run(fmt.Sprintf(`document.querySelector("#dialog input").value = %q; document.querySelector("#dialog form").requestSubmit()`, o.token))
	p.await(rowNames + ` === "deploy schema/migrate"`)
	p.b.Errors() // the call without a token was denied
	p.named("locks")
	p.has("grid", "Locks")
	p.has("searchbox", "Filter by name, owner or reason")
	p.has("checkbox", "Only with waiters")
	p.has("combobox", "Sort")
	p.await(`document.getElementById("table").getAttribute("aria-rowcount") === "3"`)
	p.run(`location.hash = "lock=deploy"`)
	p.await(`document.querySelector("#detail button.danger")`)
	p.named("one lock")
	p.has("complementary", "deploy")
	p.has("button", "Close")
	p.run(`document.querySelector("#detail button.danger").click()`)
	p.await(`document.querySelectorAll("#dialog input").length === 2`)
	p.has("dialog", "Break deploy?")
	p.has("textbox", "Reason, for the audit log")
	p.run(`document.getElementById("dialog").close()`)
	for _, view := range []string{"graph", "sessions", "store"} {
		p.run(`location.hash = "` + view + `"`)
		p.await(`!document.getElementById("view-` + view + `").hidden`)
		if view == "sessions" {
			p.await(`document.querySelectorAll("#session-list tbody tr").length === 2`)
			p.has("row", "ann@web-1:4711")
		}
		if p.named(view); view == "graph" {
			p.await(`document.querySelector("#picture .node.lock.red")`)
			p.has("button", "lock deploy, part of a deadlock")
		}
	}
	p.await(`document.querySelector("[aria-live=polite]").textContent.includes("deadlock") && document.querySelector("[role=status]").textContent === "live"`)
	p.noErrors()
}
