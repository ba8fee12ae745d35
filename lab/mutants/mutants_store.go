// SPDX-License-Identifier: Apache-2.0

package main

// storeMutants break the reference store. Each is a mistake that a store author
// could make, and the clause meant for it must say so.
var storeMutants = []mutant{
	{
		name: "unlock-without-claim-check", file: "store/memstore/session.go", catcher: clause("O3"), sim: "overlap",
		old: "	e := l.claims[w.Seq]\n	switch {\n",
		new: `	e := l.claims[w.Seq]
	if lk := s.sh.lock(w.Name); e == nil && !broken && mutated("unlock-without-claim-check") && len(lk.grants) > 0 {
		e = lk.grants[0] // the first, whichever it is
	}
	switch {
`,
	},
	{
		name: "attempt-not-idempotent", file: "store/memstore/session.go", catcher: clause("O2"),
		old: "	e := l.claims[c.Seq]\n	if e == nil {\n		e = s.sh.admit(",
		new: `	e := l.claims[c.Seq]
	if e != nil && e.granted && mutated("attempt-not-idempotent") {
		e.token = s.sh.nextToken()
	}
	if e == nil {
		e = s.sh.admit(`,
	},
	{
		name: "downgrade-through-a-gap", file: "store/memstore/session.go", catcher: clause("O6"),
		old: "		s.sh.downgrade(lk, e, c.Terms, now)",
		new: `		if mutated("downgrade-through-a-gap") && e.claim.Terms.Mode == driver.Exclusive && c.Terms.Mode == driver.Shared {
			s.sh.remove(e, now, 0)
			s.sh.promote(lk, now)
			e = s.sh.admit(l, lk, c, now, true)
			return s.sh.outcome(lk, e, now), nil
		}
		s.sh.downgrade(lk, e, c.Terms, now)`,
	},
	{
		name: "try-overtakes-the-line", file: "store/memstore/session.go", catcher: clause("Q4"), sim: "fifo",
		old: "	free := len(lk.queue) == 0 && sh.fits(lk, c.Terms)",
		new: `	free := (len(lk.queue) == 0 || !c.Queue && mutated("try-overtakes-the-line")) && sh.fits(lk, c.Terms)`,
	},
	{
		name: "tombstoned-claim-comes-back", file: "store/memstore/session.go", catcher: clause("X3"),
		old: "	if l.refuses(c.Seq) {",
		new: `	if l.refuses(c.Seq) && !mutated("tombstoned-claim-comes-back") {`,
	},
	{
		name: "push-missed-before-await", file: "store/memstore/session.go", catcher: clause("W3"), sim: "wakeup",
		old: "		if e == nil || e.granted || !s.store.Caps().Push {",
		new: `		if e == nil || e.granted && !mutated("push-missed-before-await") || !s.store.Caps().Push {`,
	},
	{
		name: "dead-session-revived", file: "store/memstore/shard.go", catcher: clause("S4"), sim: "stuck",
		old: "	if l == nil {\n		return nil, fmt.Errorf(\"memstore: session %s: %w\", id, driver.ErrGone)\n	}",
		new: `	if l == nil && mutated("dead-session-revived") {
		return sh.open(driver.OpenRequest{ID: id, TTL: time.Minute}), nil
	}
	if l == nil {
		return nil, fmt.Errorf("memstore: session %s: %w", id, driver.ErrGone)
	}`,
	},
	{
		name: "dead-waiter-blocks-the-line", file: "store/memstore/shard.go", catcher: clause("Q3"), sim: "stuck",
		old: "			touched[e.claim.Name] = struct{}{}\n			sh.remove(e, now, 0)",
		new: `			touched[e.claim.Name] = struct{}{}
			if !e.granted && mutated("dead-waiter-blocks-the-line") {
				continue
			}
			sh.remove(e, now, 0)`,
	},
	{
		name: "token-reused", file: "store/memstore/shard.go", catcher: clause("T1"), sim: "tokens",
		old: "	sh.counter++\n",
		new: `	if !mutated("token-reused") || sh.counter == 0 {
		sh.counter++
	}
`,
	},
	{
		name: "token-not-raised-on-break", file: "store/memstore/lock.go", catcher: clause("T4"),
		old: "	fence := sh.nextToken()",
		new: `	fence := token.Base()
	if !mutated("token-not-raised-on-break") {
		fence = sh.nextToken()
	}`,
	},
	{
		name: "break-not-notified", file: "store/memstore/lock.go", catcher: clause("I4"),
		old: "			e.live.broken[e.claim.Seq] = struct{}{}",
		new: `			if !mutated("break-not-notified") {
				e.live.broken[e.claim.Seq] = struct{}{}
			}`,
	},
	{
		name: "last-come-first-served", file: "store/memstore/lock.go", catcher: clause("Q1"), sim: "fifo",
		old: "		e := l.queue[0]\n		l.queue = l.queue[1:]",
		new: `		e := l.queue[0]
		if n := len(l.queue) - 1; mutated("last-come-first-served") && sh.fits(l, l.queue[n].claim.Terms) {
			l.queue[0], l.queue[n] = l.queue[n], l.queue[0]
			e = l.queue[0]
		}
		l.queue = l.queue[1:]`,
	},
	{
		name: "reader-lets-a-writer-in", file: "driver/admission.go", catcher: clause("L1"), sim: "overlap",
		old: "		return len(grants) == 0 || Joins(grants, t)\n",
		new: `		if !slices.ContainsFunc(grants, Grant.exclusive) && mutated("reader-lets-a-writer-in") {
			return true
		}
		return len(grants) == 0 || Joins(grants, t)
`,
	},
	{
		name: "semaphore-over-released", file: "store/memstore/session.go", catcher: clause("L4"), sim: "overlap",
		old: "	broken := l.foundBroken(w.Seq)\n",
		new: `	broken := l.foundBroken(w.Seq)
	if _, there := l.claims[w.Seq]; !there && mutated("semaphore-over-released") {
		for _, other := range s.sh.lock(w.Name).grants { // the weight is given back twice
			if other.claim.Terms.Limit > 0 {
				s.sh.remove(other, now, 0)
				break
			}
		}
	}
`,
	},
	{
		name: "min-hold-forgotten", file: "store/memstore/lock.go", catcher: clause("H2"),
		old: "	until := e.minEnd\n",
		new: `	until := e.minEnd
	if mutated("min-hold-forgotten") {
		until = time.Time{}
	}
`,
	},
	{
		name: "max-hold-forgotten", file: "store/memstore/lock.go", catcher: clause("H1"),
		old: "		if !e.maxEnd.IsZero() && !now.Before(e.maxEnd) {",
		new: `		if !e.maxEnd.IsZero() && !now.Before(e.maxEnd) && !mutated("max-hold-forgotten") {`,
	},
}

// floorMutants break what makes the reference store a node of a quorum.
var floorMutants = []mutant{
	{
		name: "refused-floor-forgotten", file: "store/memstore/session.go", catcher: clause("T6"),
		old: "	s.sh.raise(c.Floor)\n",
		new: `	if !mutated("refused-floor-forgotten") || l.claims[c.Seq] == nil && len(lk.grants) == 0 {
		s.sh.raise(c.Floor)
	}
`,
	},
	{
		name: "lift-gives-a-token-twice", file: "store/memstore/lock.go", catcher: clause("T7"),
		old: "	old, token := e.token, sh.nextToken()\n",
		new: `	old, token := e.token, sh.nextToken()
	if mutated("lift-gives-a-token-twice") {
		token -= driver.TokenStep
	}
`,
	},
	{
		name: "busy-answer-tells-the-holders-token", file: "store/memstore/session.go", catcher: clause("T8"),
		old: "		out.Token = s.sh.highestToken()\n",
		new: `		if out.Token = s.sh.highestToken(); mutated("busy-answer-tells-the-holders-token") && len(lk.grants) > 0 {
			out.Token = lk.grants[0].token
		}
`,
	},
}

// dataLossMutants break what the reference store does after a data loss.
var dataLossMutants = []mutant{
	{
		name: "tokens-start-over", file: "store/memstore/memory.go", catcher: clause("T5"), sim: "tokens",
		old: "	sh.counter = max(old.counter+1, sh.seed(start.UnixMicro()))",
		new: `	sh.counter = max(old.counter+1, sh.seed(start.UnixMicro()))
	if mutated("tokens-start-over") {
		sh.counter = old.counter
	}`,
	},
	{
		name: "no-grace", file: "store/memstore/memory.go", catcher: clause("R2"),
		old: "	if opts.Grace {",
		new: `	if opts.Grace && !mutated("no-grace") {`,
	},
	{
		name: "reclaim-after-a-newer-grant", file: "store/memstore/memory.go", catcher: clause("R4"),
		old: "	if l.refuses(h.Claim.Seq) || sh.grace(now) == 0 || base < sh.reclaimed[name] {",
		new: `	if !mutated("reclaim-after-a-newer-grant") && (l.refuses(h.Claim.Seq) || sh.grace(now) == 0 || base < sh.reclaimed[name]) {`,
	},
	{
		name: "forgotten-release-stays", file: "store/memstore/memory.go", catcher: clause("R6"),
		old: "			if e.suspect {",
		new: `			if e.suspect && !mutated("forgotten-release-stays") {`,
	},
	{
		name: "grant-found-again-still-suspect", file: "store/memstore/session.go", catcher: clause("R6"),
		old: "		e.suspect = false // its session knows of it\n",
		new: `		e.suspect = e.suspect && mutated("grant-found-again-still-suspect")
`,
	},
	{
		name: "plain-withdrawal-digs-up", file: "store/memstore/session.go", catcher: clause("X3"),
		old: "	if w.Tombstone {\n		l.tombstone(w.Seq)\n	}\n",
		new: `	if w.Tombstone {
		l.tombstone(w.Seq)
	} else if mutated("plain-withdrawal-digs-up") {
		delete(l.tombstoned, w.Seq)
	}
`,
	},
	{
		name: "reclaim-counts-weights", file: "store/memstore/memory.go", catcher: clause("R3"),
		old: "	if h.Claim.Terms.Mode == driver.Shared {\n		// Weights",
		new: `	if h.Claim.Terms.Mode == driver.Shared && !mutated("reclaim-counts-weights") {
		// Weights`,
	},
	{
		name: "loss-not-noticed", file: "store/memstore/memory.go", catcher: clause("R1"), sim: "survive",
		old: "	sh.incarnation++\n",
		new: `	if !mutated("loss-not-noticed") {
		sh.incarnation++
	}
`,
	},
}
