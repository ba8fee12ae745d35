// SPDX-License-Identifier: Apache-2.0

package main

// otherMutants break clocks, back-off and package shard.
var otherMutants = []mutant{
	{
		name: "tm-look-no-jitter-max", catcher: testOf("internal/timing", "TestCases"), file: "internal/timing/timing.go",
		old: "	d := min(max(hint, least), ttl)\n",
		new: "	d := max(hint, least)\n",
	},
	{
		name: "tm-poll-unbounded", catcher: testOf("internal/timing", "TestCases"), file: "internal/timing/timing.go",
		old: "	d = min(d, limit)\n",
		new: "",
	},
	{
		name: "ck-sent-uses-base", catcher: testOf("internal/clock", "TestNowCountsSuspend"), file: "internal/clock/clock.go",
		old: "	return Instant(c.running()) + Instant(c.seen.Load())\n",
		new: "	return c.Now()\n",
	},
	{
		name: "sh-moving-opens", catcher: testOf("store/shard", "TestAddingAMember"), file: "store/shard/store.go",
		old: `	case m.Moving:
		return nil, driver.Renewal{}, m.moving("open")
`,
		new: "",
	},
	{
		name: "sh-limit-moving", catcher: testOf("store/shard", "TestAddingAMember"), file: "store/shard/store.go",
		old: `	if m.Moving {
		return m.moving("set limit")
	}
`,
		new: "",
	},
	{
		name: "sh-caps-grace-or", catcher: testOf("store/shard", "TestRequireCorrectnessNamesTheMember"), file: "store/shard/caps.go",
		old: "a.Grace = (a.Grace || b.Grace) && survives(a) && survives(b)",
		new: "a.Grace = a.Grace || b.Grace",
	},
	{
		name: "sh-caps-hold-or", catcher: testOf("store/shard", "TestCapsAreTheWeakest"), file: "store/shard/caps.go",
		old: "a.Hold = a.Hold && b.Hold",
		new: "a.Hold = a.Hold || b.Hold",
	},
}
