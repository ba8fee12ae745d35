// SPDX-License-Identifier: Apache-2.0

// Package sim runs seeded schedules of many processes on one store, in fake
// time, with faults, and judges what happened.
//
//	         process c0              process c1  …       a schedule decides
//	    worker worker worker        worker worker
//	         └──┬───┴──┘               └──┬──┘      ◀── what they want, how long they
//	     fencelock.Client          fencelock.Client     hold, when they die or close
//	            │ meter                   │ meter
//	       faultstore                faultstore     ◀── faults of each network
//	            │ tap                     │ tap
//	            └───────── memstore ──────┘         ◀── data loss, restarts, clock steps,
//	                                                    an operator who breaks and limits
//
//	history ──▶ checkers ──▶ violations
//
// A schedule is a function of its seed. It is a storm, in which anything may
// go wrong, and then, when all faults and their consequences are over, a quiet
// time in which everything must work. Everything runs in a bubble of
// testing/synctest, so half a minute takes some milliseconds.
//
// A share of the schedules has more: an election, many occurrences of a job, tens
// of leases per client, machines that are suspended, a crowd of goroutines that
// want one name, an operator who breaks one lock after the other, and the weather
// [Outage], in which the store restarts or loses data and one kind of operation,
// to open, to reclaim or to withdraw, then fails for a whole TTL. [Coverage] counts
// what really happened, and a test demands that all of it did.
//
// Workers, the store and the processes write a history: who asked for what and
// when, what came back, when a holder was notified that its lease has ended, what a
// fenced resource let in. The checkers are functions of that history; the list
// is in [Checkers]. A checker knows where a promise ends: after a jump of the
// store's clock, or a data loss without grace, two may hold a lock at
// once and only the token distinguishes them; what is left to check then is checked. So it is
// with a lease that an operator broke: until its holder is notified, with its next
// renewal, it may overlap with the next one, and its token is refused. The holder on
// a machine that was suspended is notified half a second after the resume at the
// latest. An occurrence may be run again if the store lost its mark with its data,
// and not if it did not. In the end, when all workers are done, the maps of the
// store are compared with what live clients hold.
//
// # Running and replaying
//
//	go test ./lab/sim -run TestSchedules -sim.seeds=20000 -v
//	go test ./lab/sim -run TestSchedules -sim.seed=1827 -v
//	go test ./lab/sim -run TestSchedules -sim.seed=1827 -sim.fault='none | on(attempt, dup)' -v
//
// The first runs seeds from -sim.from on and ends with one line, "sim: seeds
// 1-20000, N schedules, V violations"; -sim.stop=any stops at the first violation,
// and -sim.progress says how often to print how far it is. A violation
// begins with a line for programs, "VIOLATION checker=<name> seed=<n>", and ends
// with the command that replays it. The second replays a seed and prints every
// event of the run that violates something, or else of the last. The third replaces the faults of its clients: one expression for all,
// or one for each, separated by bars; make them smaller until the violation goes
// away.
//
// A long run is split into pieces. Each piece is a separate run that prints its own
// line, and the seeds of a piece are the same wherever it runs:
//
//	go test -c -o sim.test ./lab/sim
//	./sim.test -test.run TestSchedules -test.timeout 0 -sim.from=100001 -sim.seeds=100000
//
// # What a seed does not decide
//
// Each worker takes all its decisions from its own generator, and faults are
// chosen by hashes, but three things are left to the runtime: the order of
// goroutines that run at the same instant, the order of ready cases in a
// select, and the jitter that the client adds to its pauses. So -sim.seed runs
// the seed up to -sim.repeat times, until something is violated.
//
// # When nothing comes back
//
// A goroutine that is left over, or a deadlock on channels, ends the bubble and
// is reported as checker=leak with its stack. A client that calls the store
// without a pause keeps fake time standing still; the meter refuses it and
// checker=spin says so. Whatever else does not end, a deadlock on a mutex for
// one, is reported as checker=hang after a while in real time and ends the
// process. A panic carries the seed as a label in its traceback, as
// {"sim.seed": "1827"}.
//
// # What a checker does not see
//
// The tap asks the store nothing by itself, because every call does what is
// due in a lock, and would heal what it searches for. Replies are either delayed,
// lost or fine; they are never wrong. Clocks of clients do not drift or jump
// against each other, only the store's does against theirs. A suspend stops the
// clock, the calls and the workers of a process, not its timers: those that fire
// during the suspend find that no time has passed.
package sim
