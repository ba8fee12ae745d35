// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
)

// TestConsoleBreaksALock: an operator signs in, and breaks a lock only after giving a reason
// and typing its name.
func TestConsoleBreaksALock(t *testing.T) {
	o := newOperated(t, onRedis(t, startRedis(t)))
	l := o.hold("bob@ci-7:99", "deploy")[0]
	p := openPage(o.world)
	p.await(`document.getElementById("dialog").open && document.querySelector("#dialog input")`)
	p.run(`document.querySelector("#dialog input").value = "fl_wrong-wrong-wrong-wrong"; document.querySelector("#dialog form").requestSubmit()`)
	p.await(`document.querySelector("#dialog [role=alert]")`)
	p.picture("sign-in")
	p.run(fmt.Sprintf(`document.querySelector("#dialog input").value = %q; document.querySelector("#dialog form").requestSubmit()`, o.token))
	p.await(rowNames + ` === "deploy"`)
	p.run(`location.hash = "lock=deploy"`)
	p.await(`document.querySelector("#detail button.danger")`)
	p.run(`document.querySelector("#detail button.danger").click()`)
	p.await(`document.querySelectorAll("#dialog input").length === 2 && document.querySelector("#dialog button.danger").disabled`)
	fill := func(i int, text string) {
		p.run(fmt.Sprintf(`{ const input = document.querySelectorAll("#dialog input")[%d]; input.value = %q; input.dispatchEvent(new Event("input")) }`, i, text))
	}
	fill(1, "deploy")
	p.await(`document.querySelector("#dialog button.danger").disabled`)
	fill(0, "ci-7 is gone")
	fill(1, "deplo")
	p.await(`document.querySelector("#dialog button.danger").disabled`)
	fill(1, "deploy")
	p.await(`!document.querySelector("#dialog button.danger").disabled`)
	p.picture("break")
	p.run(`document.querySelector("#dialog form").requestSubmit()`)
	p.await(`document.getElementById("fence")?.textContent > ""`)
	var fence string
	p.check(p.b.Eval(p.ctx, `document.getElementById("fence").textContent`, &fence))
	entries := o.trail()
	if last := entries[len(entries)-1]; last.Kind != audit.Broken || last.Token != l.Token() || last.Fence.String() != fence || last.Reason != "ci-7 is gone" || last.Who != "ann" {
		t.Errorf("got %+v, fence %s", last, fence)
	}
	p.run(`document.querySelector("#dialog form").requestSubmit()`)
	p.await(`document.querySelector("#detail .state").textContent === "free"`)
	denied := 0
	for _, e := range entries {
		if e.Kind == audit.Denied {
			denied++
		}
	}
	if denied != 2 { // without a token and with the wrong one
		t.Errorf("%d calls were denied: %+v", denied, entries)
	}
}
