// SPDX-License-Identifier: Apache-2.0

// Package otelfencelock exports metrics and traces of a fencelock client to OpenTelemetry.
// Call New instead of fencelock.New; nothing else in a program changes:
//
//	locks, err := otelfencelock.New(store, &fencelock.Options{Logger: slog.Default()}, nil)
//
// It listens at two places, and adds no call to the store:
//
//	          Hooks                                driver.Store
//	caller ──────────▶ fencelock.Client ───────────────────────▶ server
//	           │                                        │
//	           ├ spans  acquire, hold                   ├ fencelock.client.operation.duration
//	           ├ waits, holds, losses, counts           ├ fencelock.renewals
//	           └ the traceparent in the holder record   └ fencelock.lease.headroom
//
// # Names stay out of metrics
//
// A lock name often has an id in it, and a metric with a series for each id
// brings a monitoring system down. So a name is never an attribute of a metric.
// It is on spans and in logs. Options.Class maps a name to a class, such as
// orders/{id}, and Template is a ready-made one. The number of classes is
// bounded by Options.MaxClasses whatever the function returns; those beyond it
// are counted as "other".
//
// # Who blocks whom
//
// The traceparent of an acquisition is kept in the holder record. When another
// acquisition has to wait, in whatever process, its span gets a link to that
// trace: from "this request waited four seconds" it is one step to the request
// that held the lock.
//
//	trace A   acquire ─┤├──────── hold ────────┤
//	                     ▲ link
//	trace B      acquire ├──── waits ──────────┤├─ hold ─┤
//
// # When something fails
//
//   - The holder record comes from the store, written by other programs. A
//     trace in it that is not a traceparent makes no link, and nothing else.
//   - A local handoff keeps the record of the first of those the grant was
//     passed along, and so does its trace.
//   - A process that is killed does not end its hold span; spans that have not
//     ended are not exported. Its acquire span is there, with the token.
//   - Without an SDK all of this is a no-op, as OpenTelemetry wants it.
//   - fencelock.lease.headroom uses the monotonic clock of Go, which may stop
//     while a machine sleeps; the core, which decides, does not rely on it.
//
// The metrics are listed in docs/observability.md; a dashboard and alert rules
// that use them are in the folder dashboard, and tests compare them.
package otelfencelock
