// SPDX-License-Identifier: Apache-2.0

// Command fencelock takes locks from the shell, and shows and repairs the locks of
// a store.
//
//	fencelock run LOCK -- CMD   run a command while holding a lock
//	fencelock acquire LOCK      hold a lock over several steps of a script;
//	                            then renew, release
//	fencelock ls, why, top      who holds what, who waits, who blocks whom
//	fencelock force-unlock      take a lock away from its holder
//	fencelock doctor            what the store promises, and whether it keeps it
//
// # Design
//
// The program is a thin shell around the library: every command opens a store by
// its URL (stores.go, which imports the stores), makes a client, and asks it.
// Only run and acquire hold leases.
//
//	run:      fencelock ── lease ──▶ store
//	              │ until, signals, kill
//	              ▼
//	           supervisor ──▶ command and all it starts      (internal/supervisor)
//
//	acquire:  fencelock ──starts──▶ agent ── lease ──▶ store
//	          renew, release ──socket──▶ agent
//
// What can fail, and what happens then, is in docs/cli.md: the store does not
// answer, the lease is broken or lost with the store's data, this process is killed or stopped,
// the command starts other processes. The rule for run is that everything the
// command started is dead before another can hold the lock, or, where the lock is
// gone already, as soon as that is known.
//
// Data goes to stdout, everything else to stderr, and the exit code reports what
// happened (exit.go). Decisions are pure functions: when to stop a command
// (internal/jobtimes), who blocks whom (internal/graph), what changed between two
// polls (internal/lockview).
package main
