// SPDX-License-Identifier: Apache-2.0

package main

// equivalent is a mutant that no test can kill, because nothing that is promised
// changes with it. It is compiled with the others, so that its text stays true.
type equivalent struct {
	mutant
	reason string
}

var equivalents = []equivalent{
	{reason: "no claim is pending while an exclusive grant is in the client, so there is nothing to withdraw", mutant: mutant{
		name: "vacate-keeps-stale-claim", file: "internal/core/grant.go",
		old: `	sh.mu.Unlock()
	stale.withdraw()
`,
		new: `	sh.mu.Unlock()
	_ = stale
`,
	}},
	{reason: "readers that share a grant were granted at one instant, so MaxHold ends for all of them at once", mutant: mutant{
		name: "read-together-maxhold", file: "internal/core/grant.go",
		old: " || t.MaxHold > 0 || t.MinHold",
		new: " || t.MinHold",
	}},
	{reason: "readers that share a grant were granted at one instant, so MinHold ends for all of them at once", mutant: mutant{
		name: "read-together-minhold", file: "internal/core/grant.go",
		old: " || t.MinHold > 0 {",
		new: " {",
	}},
	{reason: "after a pushed grant the acquisition ends; the count only spaces the polls of a store that pushes nothing", mutant: mutant{
		name: "polls-not-reset", file: "internal/core/acquisition.go",
		old: "		a.polls = 0\n",
		new: "",
	}},
	{reason: "Client.background starts nothing after Close, so a shard that does not know of it opens no session either", mutant: mutant{
		name: "new-shard-not-closed", file: "internal/core/client.go",
		old: "closed: c.closed, queues",
		new: "queues",
	}},
	{reason: "weights are at least 1, so a holder as heavy as the limit leaves no room, however heavy it is", mutant: mutant{
		name: "ms-weights-of-holders-not-cut", file: "driver/admission.go",
		old: "		used += min(g.Weight, limit)\n",
		new: "		used += g.Weight\n",
	}},
	{reason: "once there are votes there are no tickets, and without a ticket nothing is granted", mutant: mutant{
		name: "rl-grant-beside-votes", file: plainFile,
		old: "e.marker[:7] != tail[7:] || e.marker[7] != 0:",
		new: "e.marker[:7] != tail[7:]:",
	}},
	{reason: "during a grace period there are no tickets, and without a ticket nothing is granted", mutant: mutant{
		name: "rl-grant-in-grace", file: plainFile,
		old: "	case rediscmd.NumberOf(e.marker[21:27]) > p.s.alive.earliest(): // the end of a grace period\n",
		new: "",
	}},
	{reason: "during a grace period neither scripts nor plain commands grant, whether there are tickets or not", mutant: mutant{
		name: "rl-grace-finished-with-tickets", file: listScripts + "lib.lua",
		old: "    m.over = rest(m)\n    call('LTRIM', T, 1, 0)\n",
		new: "    m.over = rest(m)\n",
	}},
	{reason: "a keep-alive that is sent after the end is answered after it, and ends the session then", mutant: mutant{
		name: "ka-after-the-end", file: keepAliveFile,
		old: "!s.proof.proven() || k.latest() >= before {",
		new: "!s.proof.proven() {",
	}},
	{reason: "the script that decides then keeps a session alive in any generation: one id belongs to one process", mutant: mutant{
		name: "ka-other-generation", file: keepAliveFile,
		old: " && session[6:13] == k.s.tail[:7]\n",
		new: "\n",
	}},
}

func equivalentMutants() (list []mutant) {
	for _, e := range equivalents {
		list = append(list, e.mutant)
	}
	return list
}
