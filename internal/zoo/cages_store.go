// SPDX-License-Identifier: Apache-2.0

package main

// storeCages break the reference store. Each is a mistake that a store author
// could make, and the clause meant for it must say so.
var storeCages = []cage{
	{
		name: "unlock-without-claim-check", file: "memstore/session.go", catcher: clause("O3"), sim: "overlap",
		old: "	if broken {\n		return driver.WasBroken, nil\n	}\n",
		new: `	if broken {
		return driver.WasBroken, nil
	}
	if lk := s.sh.lock(w.Name); e == nil && caged("unlock-without-claim-check") && len(lk.grants) > 0 {
		e = lk.grants[0] // whoever it is
	}
`,
	},
	{
		name: "attempt-not-idempotent", file: "memstore/session.go", catcher: clause("O2"),
		old: "	e := l.claims[c.Seq]\n	if e == nil {\n		e = s.sh.admit(",
		new: `	e := l.claims[c.Seq]
	if e != nil && e.granted && caged("attempt-not-idempotent") {
		e.token = s.sh.nextToken()
	}
	if e == nil {
		e = s.sh.admit(`,
	},
	{
		name: "downgrade-through-a-gap", file: "memstore/session.go", catcher: clause("O6"),
		old: "		e.claim.Terms = c.Terms\n		s.sh.promote(lk, now)",
		new: `		if caged("downgrade-through-a-gap") {
			s.sh.remove(e, now, 0)
			s.sh.promote(lk, now)
			e = s.sh.admit(l, lk, c, now, true)
			return s.sh.outcome(lk, e, now), nil
		}
		e.claim.Terms = c.Terms
		s.sh.promote(lk, now)`,
	},
	{
		name: "try-overtakes-the-line", file: "memstore/session.go", catcher: clause("Q4"), sim: "fifo",
		old: "	free := len(lk.line) == 0 && sh.fits(lk, c.Terms)",
		new: `	free := (len(lk.line) == 0 || !c.Queue && caged("try-overtakes-the-line")) && sh.fits(lk, c.Terms)`,
	},
	{
		name: "buried-claim-comes-back", file: "memstore/session.go", catcher: clause("X3"),
		old: "	if l.refuses(c.Seq) {",
		new: `	if l.refuses(c.Seq) && !caged("buried-claim-comes-back") {`,
	},
	{
		name: "push-missed-before-await", file: "memstore/session.go", catcher: clause("W3"), sim: "wakeup",
		old: "		if e == nil || e.granted || !s.store.Caps().Push {",
		new: `		if e == nil || e.granted && !caged("push-missed-before-await") || !s.store.Caps().Push {`,
	},
	{
		name: "dead-session-revived", file: "memstore/shard.go", catcher: clause("S4"), sim: "stuck",
		old: "	if l == nil {\n		return nil, fmt.Errorf(\"memstore: session %s: %w\", id, driver.ErrGone)\n	}",
		new: `	if l == nil && caged("dead-session-revived") {
		return sh.open(id, time.Minute), nil
	}
	if l == nil {
		return nil, fmt.Errorf("memstore: session %s: %w", id, driver.ErrGone)
	}`,
	},
	{
		name: "dead-waiter-blocks-the-line", file: "memstore/shard.go", catcher: clause("Q3"), sim: "stuck",
		old: "			touched[e.claim.Name] = struct{}{}\n			sh.remove(e, now, 0)",
		new: `			touched[e.claim.Name] = struct{}{}
			if !e.granted && caged("dead-waiter-blocks-the-line") {
				continue
			}
			sh.remove(e, now, 0)`,
	},
	{
		name: "token-reused", file: "memstore/shard.go", catcher: clause("T1"), sim: "tokens",
		old: "	sh.counter++\n",
		new: `	if !caged("token-reused") || sh.counter == 0 {
		sh.counter++
	}
`,
	},
	{
		name: "token-not-raised-on-break", file: "memstore/lock.go", catcher: clause("T4"),
		old: "	fence := sh.nextToken()",
		new: `	fence := token.Base()
	if !caged("token-not-raised-on-break") {
		fence = sh.nextToken()
	}`,
	},
	{
		name: "break-not-told", file: "memstore/lock.go", catcher: clause("I4"),
		old: "			e.live.broken[e.claim.Seq] = struct{}{}",
		new: `			if !caged("break-not-told") {
				e.live.broken[e.claim.Seq] = struct{}{}
			}`,
	},
	{
		name: "last-come-first-served", file: "memstore/lock.go", catcher: clause("Q1"), sim: "fifo",
		old: "		e := l.line[0]\n		l.line = l.line[1:]",
		new: `		e := l.line[0]
		if n := len(l.line) - 1; caged("last-come-first-served") && sh.fits(l, l.line[n].claim.Terms) {
			l.line[0], l.line[n] = l.line[n], l.line[0]
			e = l.line[0]
		}
		l.line = l.line[1:]`,
	},
	{
		name: "reader-lets-a-writer-in", file: "memstore/lock.go", catcher: clause("L1"), sim: "overlap",
		old: "	if t.Mode == driver.Exclusive {\n		return l.reenters(t)\n	}",
		new: `	if t.Mode == driver.Exclusive && !l.exclusive() && caged("reader-lets-a-writer-in") {
		return true
	}
	if t.Mode == driver.Exclusive {
		return l.reenters(t)
	}`,
	},
	{
		name: "semaphore-over-released", file: "memstore/session.go", catcher: clause("L4"), sim: "overlap",
		old: "	delete(l.broken, w.Seq)\n",
		new: `	delete(l.broken, w.Seq)
	if _, there := l.claims[w.Seq]; !there && caged("semaphore-over-released") {
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
		name: "min-hold-forgotten", file: "memstore/lock.go", catcher: clause("H2"),
		old: "	until := e.minEnd\n",
		new: `	until := e.minEnd
	if caged("min-hold-forgotten") {
		until = time.Time{}
	}
`,
	},
	{
		name: "max-hold-forgotten", file: "memstore/lock.go", catcher: clause("H1"),
		old: "		if !e.maxEnd.IsZero() && !now.Before(e.maxEnd) {",
		new: `		if !e.maxEnd.IsZero() && !now.Before(e.maxEnd) && !caged("max-hold-forgotten") {`,
	},
}

// floorCages break what makes the reference store a node of a quorum.
var floorCages = []cage{
	{
		name: "refused-floor-forgotten", file: "memstore/session.go", catcher: clause("T6"),
		old: "	s.sh.raise(c.Floor)\n",
		new: `	if !caged("refused-floor-forgotten") || l.claims[c.Seq] == nil && len(lk.grants) == 0 {
		s.sh.raise(c.Floor)
	}
`,
	},
	{
		name: "lift-gives-a-token-twice", file: "memstore/lock.go", catcher: clause("T7"),
		old: "	old, token := e.token, sh.nextToken()\n",
		new: `	old, token := e.token, sh.nextToken()
	if caged("lift-gives-a-token-twice") {
		token -= driver.TokenStep
	}
`,
	},
	{
		name: "busy-answer-tells-the-holders-token", file: "memstore/session.go", catcher: clause("T8"),
		old: "		out.Token = s.sh.told()\n",
		new: `		if out.Token = s.sh.told(); caged("busy-answer-tells-the-holders-token") && len(lk.grants) > 0 {
			out.Token = lk.grants[0].token
		}
`,
	},
}

// memoryCages break what the reference store does after a loss of memory.
var memoryCages = []cage{
	{
		name: "tokens-start-over", file: "memstore/memory.go", catcher: clause("T5"), sim: "tokens",
		old: "	sh.counter = max(old.counter+1, seed.UnixMicro())",
		new: `	sh.counter = max(old.counter+1, seed.UnixMicro())
	if caged("tokens-start-over") {
		sh.counter = old.counter
	}`,
	},
	{
		name: "no-grace", file: "memstore/memory.go", catcher: clause("R2"),
		old: "	if opts.Grace {",
		new: `	if opts.Grace && !caged("no-grace") {`,
	},
	{
		name: "reclaim-after-a-newer-grant", file: "memstore/memory.go", catcher: clause("R4"),
		old: "	if l.refuses(h.Claim.Seq) || sh.grace(now) == 0 || base < sh.reclaimed[name] {",
		new: `	if !caged("reclaim-after-a-newer-grant") && (l.refuses(h.Claim.Seq) || sh.grace(now) == 0 || base < sh.reclaimed[name]) {`,
	},
	{
		name: "forgotten-release-stays", file: "memstore/memory.go", catcher: clause("R6"),
		old: "			if e.suspect {",
		new: `			if e.suspect && !caged("forgotten-release-stays") {`,
	},
	{
		name: "grant-found-again-still-suspect", file: "memstore/session.go", catcher: clause("R6"),
		old: "		e.suspect = false // its session knows of it\n",
		new: `		e.suspect = e.suspect && caged("grant-found-again-still-suspect")
`,
	},
	{
		name: "plain-withdrawal-digs-up", file: "memstore/session.go", catcher: clause("X3"),
		old: "	if w.Bury {\n		l.bury(w.Seq)\n	}\n",
		new: `	if w.Bury {
		l.bury(w.Seq)
	} else if caged("plain-withdrawal-digs-up") {
		delete(l.buried, w.Seq)
	}
`,
	},
	{
		name: "reclaim-counts-weights", file: "memstore/memory.go", catcher: clause("R3"),
		old: "	if h.Claim.Terms.Mode == driver.Shared {\n		// Weights",
		new: `	if h.Claim.Terms.Mode == driver.Shared && !caged("reclaim-counts-weights") {
		// Weights`,
	},
	{
		name: "loss-not-noticed", file: "memstore/memory.go", catcher: clause("R1"), sim: "survive",
		old: "	sh.incarnation++\n",
		new: `	if !caged("loss-not-noticed") {
		sh.incarnation++
	}
`,
	},
}
