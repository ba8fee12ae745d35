// SPDX-License-Identifier: Apache-2.0

// Package fleetsim simulates a fleet of processes and the servers that keep their locks, in
// simulated time: how busy the servers are, how long calls wait, and what happens when everything
// restarts at once or a server fails.
//
//	process: renew (jittered), lock (at random), unlock ──▶ master: one call at once, in order
//	   ▲                                                       │
//	   ╰────── failed: back off (jittered), try again ◀────────╯  while it is down
//
// The times of renewals and of back-offs are those of the library (package timing), and the service
// times are measured unit costs. Left out: the network, the time that a process itself needs, and
// batches; so waits are those for a server, and for nothing else. TestSimulationAgreesWithRealRuns
// compares it with real runs.
//
// A run is decided by its seed.
package fleetsim
