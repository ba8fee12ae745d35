// SPDX-License-Identifier: Apache-2.0

package drivertest

import "github.com/fencelock/fencelock/driver"

// failoverCases are about what must survive a new incarnation beside the exclusive
// grants that reclaimCases look at: tombstones, broken marks, the queue and shared
// grants.
var failoverCases = []spec{
	{"X3", "over a restart", all(restart), x3OverARestart},
	{"X3", "over a rewind", all(rewind), x3OverARewind},
	{"R3", "shared over a lost exclusive release", all(rewind, grace, sharing), r3SharedOverARelease},
	{"R4", "shared beside", all(sharing), r4SharedBeside},
	{"R4", "shared beside a surviving exclusive one", all(restart, sharing), r4SharedBesideASurvivor},
	{"R4", "shared beside a reclaimed exclusive one", all(reset, grace, sharing), r4SharedBesideReclaimed},
	{"R4", "exclusive beside a surviving shared one", all(restart, sharing), r4ExclusiveBesideASurvivor},
	{"R7", "withdrawn before the loss", all(rewind, queue), r7Withdrawn},
	{"R7", "attempted again", all(restart, queue), r7AttemptedAgain},
	{"R7", "in the way of others", all(rewind, queue), r7InTheWay},
	{"I4", "reported over a restart", all(fencing, restart), i4ReportedOverARestart},
	{"I4", "reported over a rewind", all(fencing, rewind), i4ReportedOverARewind},
}

func x3OverARestart(t *scene) { x3Over(t, t.restart) }

func x3OverARewind(t *scene) {
	x3Over(t, func() {
		rewind := t.checkpoint()
		rewind()
	})
}

// x3Over puts a tombstone on a claim that was never attempted and on one that held
// its lock. Their late attempts and reclaims arrive on the session that was opened
// again.
func x3Over(t *scene, failover func()) {
	names := t.neighbors(3)
	s := t.open(names[0])
	absent, held, keeps := s.want(names[0]), s.grant(names[1]), s.grant(names[2])
	tombstone(t, absent, driver.WasAbsent)
	tombstone(t, held, driver.WasGranted)
	failover()
	again := s.resume()
	absent, held = absent.on(again), held.on(again)
	t.mustReclaim(again, false, no, held)
	mustBeTombstoned(t, absent)
	mustBeTombstoned(t, held)
	t.mustReclaim(again, true, yes, keeps)
	t.passGrace(names[0], again)
	mustBeTombstoned(t, absent)
	mustBeTombstoned(t, held)
	t.mustBeFree(names[0])
	t.mustBeFree(names[1])
	again.grant(names[1])
}

func r3SharedOverARelease(t *scene) {
	// The store woke up with a writer that had released the lock before the reader
	// was granted it.
	name := t.name("lock")
	old, b := t.open(name).grant(name), t.open(name)
	rewind := t.checkpoint()
	old.withdraw()
	reader := b.grant(name, shared)
	rewind()
	s := b.resume()
	t.mustReclaim(s, true, yes, reader)
	t.mustReclaim(old.s.resume(), false, no, old)
	t.mustHold(name, reader)
	t.passGrace(name, s)
	reader.on(s).mustFind(driver.WasGranted)
	t.mustBeFree(name)
}

// readThenWritten returns a reader's grant that was withdrawn, and the writer's that
// came after it.
func (t *scene) readThenWritten(name string) (reader, writer *request) {
	reader = t.open(name).grant(name, shared)
	reader.withdraw()
	return reader, t.open(name).grant(name)
}

func r4SharedBeside(t *scene) {
	name := t.name("lock")
	reader, writer := t.readThenWritten(name)
	t.mustReclaim(reader.s, false, no, reader)
	t.mustHold(name, writer)
}

func r4SharedBesideASurvivor(t *scene) {
	name := t.name("lock")
	reader, writer := t.readThenWritten(name)
	t.restart()
	// Before and after the writer's session has confirmed its grant.
	rs := reader.s.resume()
	t.mustReclaim(rs, false, no, reader)
	ws := writer.s.resume()
	t.mustReclaim(ws, true, yes, writer)
	t.mustReclaim(rs, true, no, reader)
	t.mustHold(name, writer)
	writer.on(ws).mustFind(driver.WasGranted)
	t.mustBeFree(name)
}

func r4SharedBesideReclaimed(t *scene) {
	name := t.name("lock")
	reader, writer := t.readThenWritten(name)
	t.reset()
	rs, ws := reader.s.resume(), writer.s.resume()
	t.mustReclaim(ws, true, yes, writer)
	t.mustReclaim(rs, true, no, reader)
	t.mustHold(name, writer)
}

func r4ExclusiveBesideASurvivor(t *scene) {
	name := t.name("lock")
	writer := t.open(name).grant(name)
	writer.withdraw()
	a, b := t.open(name).grant(name, shared), t.open(name).grant(name, shared)
	t.restart()
	ws := writer.s.resume()
	t.mustReclaim(ws, false, no, writer)
	as, bs := a.s.resume(), b.s.resume()
	t.mustReclaim(as, true, yes, a)
	t.mustReclaim(ws, false, no, writer)
	t.mustReclaim(bs, true, yes, b)
	t.mustReclaim(ws, true, no, writer)
	t.mustHold(name, a, b)
}

func r7Withdrawn(t *scene) {
	name := t.name("lock")
	holder, b := t.open(name).grant(name), t.open(name)
	gone := b.queue(name)
	rewind := t.checkpoint()
	gone.mustFind(driver.WasQueued)
	rewind()
	hs, again := holder.s.resume(), b.resume()
	t.mustReclaim(hs, true, yes, holder)
	t.mustReclaim(again, true, nil)
	if st := t.inspect(name); st.Waiting != 0 {
		t.fatalf("got %d claims in the queue, the only one was withdrawn", st.Waiting)
	}
	t.passGrace(name, hs, again)
	holder.on(hs).mustFind(driver.WasGranted)
	t.mustBeFree(name)
	again.grant(name)
}

func r7AttemptedAgain(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a, b := t.open(name).queue(name), t.open(name).queue(name)
	t.restart()
	hs, as, bs := holder.s.resume(), a.s.resume(), b.s.resume()
	a, b = a.on(as), b.on(bs)
	t.mustReclaim(hs, true, yes, holder)
	a.queued()
	t.mustReclaim(as, true, nil)
	t.mustReclaim(bs, true, nil)
	b.queued()
	t.passGrace(name, hs, as, bs)
	a.queuedAt(0)
	b.queuedAt(1)
	holder.on(hs).mustFind(driver.WasGranted)
	t.mustHold(name, a)
	a.mustFind(driver.WasGranted)
	t.mustHold(name, b)
}

func r7InTheWay(t *scene) {
	// The withdrawn claim was first in the queue. The claim behind it must get the
	// lock, not wait for a claim that no process knows of.
	name := t.name("lock")
	holder, b, c := t.open(name).grant(name), t.open(name), t.open(name)
	gone := b.queue(name)
	next := c.queue(name)
	rewind := t.checkpoint()
	gone.mustFind(driver.WasQueued)
	rewind()
	hs, bs, cs := holder.s.resume(), b.resume(), c.resume()
	next = next.on(cs)
	t.mustReclaim(bs, true, nil)
	next.queued()
	t.mustReclaim(cs, true, nil)
	t.mustReclaim(hs, true, yes, holder)
	t.passGrace(name, hs, bs, cs)
	next.queuedAt(0)
	holder.on(hs).mustFind(driver.WasGranted)
	t.mustHold(name, next)
}

func i4ReportedOverARestart(t *scene) { i4ReportedOver(t, t.restart) }

func i4ReportedOverARewind(t *scene) {
	i4ReportedOver(t, func() {
		rewind := t.checkpoint()
		rewind()
	})
}

func i4ReportedOver(t *scene, failover func()) {
	names := t.neighbors(2)
	s := t.open(names[0])
	a, b := s.grant(names[0]), s.grant(names[1])
	t.breakGrant(names[0], a.token)
	failover()
	again := s.resume()
	mustReportBroken(t, "Open", again.renewal, a)
	t.mustReclaim(again, true, []bool{false, true}, a, b)
	mustReportBroken(t, "KeepAlive", again.keepAlive(), a)
	t.passGrace(names[0], again)
	t.mustBeFree(names[0])
	a = a.on(again)
	a.mustFind(driver.WasBroken)
	mustReportBroken(t, "KeepAlive after the withdrawal", again.keepAlive())
	t.mustHold(names[1], b)
}
