// SPDX-License-Identifier: Apache-2.0

// Package serve shows the locks of a store over HTTP, and lets operators break them.
//
//	browser, curl ──▶ guard ──▶ handler ──▶ poll.Snapshot (reads)
//	                    │          └──────▶ store (break only)
//	                    └──▶ audit
//
// The server keeps nothing that locks depend on: killing it costs the viewers their page,
// the history of the last hour, and nothing else. Terraform states are the exception, and
// in a folder that outlives the server; tflocks.go holds their locks.
//
// Paths are compared byte for byte. Everything that varies, names of locks above all, is in
// the query or in the body, so that there is no path to normalize, and no second way to
// write one that a proxy in front might judge differently.
//
// guard.go has the order in which a request is judged. openapi.yaml describes the calls; a
// test compares it with routes and with the types of the answers.
package serve
