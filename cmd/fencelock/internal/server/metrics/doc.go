// SPDX-License-Identifier: Apache-2.0

// Package metrics shows the locks that an operator named, in the text format of Prometheus.
//
//	watches of the operator ──┐
//	                          ├──▶ samples ──▶ text
//	lockfeed.State ───────────┘
//
// Names of locks contain ids, so that a series for each lock would fill any monitoring
// system (decision 0018). There are series for the watches and for no other lock: a watch is
// a name, or a prefix whose locks are summed up in one.
//
// Everything is computed from the last poll of the store: a scrape costs the store nothing.
// While the store does not answer, the series of locks are absent rather than old.
package metrics
