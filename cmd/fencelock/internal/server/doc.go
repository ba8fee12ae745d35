// SPDX-License-Identifier: Apache-2.0

// Package server shows the locks of a store over HTTP, lets operators break them, and takes
// them for programs in any language.
//
//	browser, curl ──▶ guard ──▶ handler ──▶ lockfeed.Snapshot (reads)
//	                    │          ├──────▶ store (break only)
//	                    │          └──────▶ leases.Leases (locks for clients in any language)
//	                    └──▶ audit
//
// The server keeps nothing that locks depend on: killing it costs the viewers their page and
// the history of the last hour. Clients that hold locks through it go on at another server
// (package leases).
//
// Paths are compared byte for byte. Everything that varies, names of locks above all, is in
// the query or in the body, so that there is no path to normalize, and no second way to
// write one that a proxy in front might judge differently.
//
// guard.go has the order in which a request is judged. openapi.yaml describes the calls; a
// test compares it with routes and with the types of the answers.
package server
