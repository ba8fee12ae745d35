// SPDX-License-Identifier: Apache-2.0

// Package fleet moves a fleet of processes from one lock to another, one process after the other, while all
// of them compete for the same names, and judges whether two held a name at the same time.
//
//	parent ── starts, stops ──▶ process in phase native, old, both or new ──▶ the locks
//	parent ◀── holds, failures ──┘
//
// A process of fencelock is the test program itself, started again: TestMain calls Child first. It opens its
// stores by their URLs, holds a name for a moment, again and again, and writes a line for each hold, with the instants by
// the clock of the machine. It stops when its input ends, so that no child outlives its parent. A process of
// phase native runs the library that the fleet comes from: a child if that is a library for Go, or what a Starter starts.
package fleet
