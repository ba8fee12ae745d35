// SPDX-License-Identifier: Apache-2.0

// Package lockfeed reads the locks of a store once for any number of viewers.
//
//	store ── one listing per poll ──▶ Poller ──▶ Snapshot ──▶ every request
//	                                    │
//	                                    ├──▶ Feed: what changed, for every viewer
//	                                    └──▶ History: who held what in the last hour
//
// A viewer never causes a call to the store: a hundred viewers cost the store as much as
// one. Without viewers the poller slows down, and a request that finds only an old
// snapshot makes it poll at once. What comes and goes between two polls is not seen. Feed
// and History are in memory: a new process begins with empty ones.
package lockfeed
