// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"time"

	"github.com/fencelock/fencelock/driver"
)

var dataLossCases = []spec{
	{"R1", "data loss", all(reset), r1DataLoss},
	{"R1", "restarted", all(restart), r1Restarted},
	{"R1", "new sessions", all(reset), r1NewSessions},
	{"R8", "restarted", all(restart), r8Restarted},
	{"R8", "data loss", all(reset), r8DataLoss},
	{"R2", "nothing new", all(reset, grace), r2NothingNew},
	{"R2", "after a restart", all(restart, grace), r2AfterARestart},
	{"R2", "queued", all(reset, grace, queue), r2Queued},
	{"R2", "no handoff", all(reset, grace, queue), r2NoHandoff},
}

func r1DataLoss(t *scene) { r1(t, t.reset) }

func r1Restarted(t *scene) { r1(t, t.restart) }

func r1(t *scene, lose func()) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	lose()
	for range 2 {
		for _, c := range t.calls(w)[:sessionCalls] {
			ctx, cancel := t.bounded()
			t.wantErr(c.what+" of an earlier session", c.do(ctx), driver.ErrReset)
			cancel()
		}
	}
	again := w.s.resume()
	again.keepAlive()
	again.want(name).attempt()
	again.reclaim(w)
	// The old value stands for an earlier incarnation and must not come alive
	// with the new one, or it would act on what was lost.
	ctx, cancel := t.bounded()
	defer cancel()
	if _, err := w.s.d.KeepAlive(ctx); err != nil {
		t.wantErr("KeepAlive of the value opened before", err, driver.ErrReset)
	}
}

func r8Restarted(t *scene) { r8(t, t.restart) }

func r8DataLoss(t *scene) { r8(t, t.reset) }

func r8(t *scene, lose func()) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	lose()
	ctx, cancel := t.bounded()
	defer cancel()
	if err := w.s.d.Close(ctx); err != nil {
		t.wantErr("Close of an earlier session", err, driver.ErrReset)
		w.s.resume().close()
	}
	if st := t.inspect(name); len(st.Holders) != 0 {
		t.errorf("the session is closed, and its grant is held: %+v", st.Holders)
	}
	b := t.open(name)
	t.passGrace(name, b)
	b.grant(name)
}

// sessionCalls is how many of the calls, the first ones, are methods of the
// session.
const sessionCalls = 4

func r1NewSessions(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name)
	t.reset()
	b := t.open(name)
	b.keepAlive()
	t.passGrace(name, b)
	b.grant(name)
}

// mustBeGrace fails unless a refusal is for grace, and returns for
// how long.
func mustBeGrace(t *scene, out driver.Outcome) time.Duration {
	if out.State == driver.Granted {
		t.fatalf("granted during grace with token %v", out.Token)
	}
	if !out.Grace || out.PollAfter <= 0 {
		t.fatalf("during grace the answer has Grace %v and PollAfter %v, want true and a positive time", out.Grace, out.PollAfter)
	}
	return out.PollAfter
}

func r2NothingNew(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name)
	t.reset()
	b, c := t.open(name), t.open(t.name("never locked"))
	rest := mustBeGrace(t, b.want(name).attempt())
	mustBeGrace(t, c.want(t.name("never locked")).attempt())
	if g := t.inspect(name).Grace; g <= 0 {
		t.errorf("Inspect shows %v of grace, want a positive time", g)
	}
	if rest < t.short-t.slack {
		// The holder asked for the long TTL; the short one is the least any
		// store can have answered with.
		t.errorf("grace is over in %v, before an earlier session of %v must have ended", rest, t.short)
	}
	t.elapseKeeping(rest-t.slack, b, c)
	mustBeGrace(t, b.want(name).attempt())
	t.elapseKeeping(2*t.slack, b, c)
	b.want(name).granted()
	c.want(t.name("never locked")).granted()
	if g := t.inspect(name).Grace; g != 0 {
		t.errorf("Inspect shows %v of grace after its end", g)
	}
}

func r2AfterARestart(t *scene) {
	free := t.name("free")
	t.restart()
	b := t.open(free)
	rest := mustBeGrace(t, b.want(free).attempt())
	t.elapseKeeping(rest+t.slack, b)
	b.want(free).granted()
}

func r2Queued(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name)
	t.reset()
	b, c := t.open(name), t.open(name)
	first, second := b.want(name, queueing), c.want(name, queueing)
	rest := mustBeGrace(t, first.attempt())
	mustBeGrace(t, second.attempt())
	t.elapseKeeping(rest+t.slack, b, c)
	second.queued()
	first.granted()
	second.queuedAt(0)
}

func r2NoHandoff(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	t.reset()
	s, b := a.s.resume(), t.open(name)
	if !s.reclaim(a)[0] {
		t.fatalf("Reclaim during grace was refused")
	}
	next := b.want(name, queueing)
	next.attempt()
	a.on(s).mustFind(driver.WasGranted)
	rest := mustBeGrace(t, next.attempt())
	t.elapseKeeping(rest+t.slack, b, s)
	next.granted()
}
