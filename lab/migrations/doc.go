// SPDX-License-Identifier: Apache-2.0

// Package migrations has the code of the migration pages: how a program holds its old
// lock and fencelock's together while its processes are replaced one after the other.
//
//	version    takes              excludes, by
//	old        the old lock       old and both, by the old lock
//	both       fencelock, then    old, by the old lock; new, by fencelock
//	           the old lock
//	new        fencelock          both and new, by fencelock
//
// Old and new do not exclude each other, so the last old process must be gone
// before the first new one starts. All processes that take two locks take them in the
// same order, so there is no deadlock. Fencelock comes first because its lease is renewed
// while the process waits for the second lock; the other way round, an old lock that is
// not renewed can end before the work begins.
//
// The code is in the tests, which run it on real servers. Fleets that move with package both, which takes the old lock
// first, are in lab/interop.
package migrations
