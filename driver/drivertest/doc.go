// SPDX-License-Identifier: Apache-2.0

// Package drivertest tests whether a store keeps the contract of package driver. It runs
// the store clauses of docs/spec.md against any driver.Store and names the clause that a
// store violates.
//
// In the tests of a store, Run makes one subtest of every case:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
//			server := startServer(t)
//			return &drivertest.Harness{
//				Open: func() (driver.Store, error) { return mystore.New(server.Addr(), nil) },
//			}
//		})
//	}
//
// RunCases runs some or all of the cases on several servers at once.
//
// RunInBubble does what Run does inside a testing/synctest bubble, where waiting is
// exact and free; it suits stores that live in memory. Outside of tests, Check
// runs the cases against a deployed store and returns a Report. It uses fresh
// names under Harness.Prefix and short sessions, and leaves nothing behind.
//
// A failure reads like this: the case, the rule of docs/spec.md, where the case
// is written down, which line of it failed, and why.
//
//	S3/expires: violated: A session that is not kept alive ends when ...
//		case session.go:58, failed at session.go:66
//		attempt of 5f0c...:1 for "driver/drivertest/9e1b/lock": got busy, want granted
//
// # Skipping
//
// A case names what it needs: capabilities in driver.Caps, functions in the
// Harness. A case whose needs are not met is skipped, counted and reported with
// the reason. No case skips for another reason, so a store cannot claim a
// capability and not be tested for it.
//
// # Time
//
// Cases wait for events, or for the store's clock through Harness.Elapse; none
// of them polls. Where a duration matters they check Harness.Slack before and
// after the end of it.
package drivertest
