// SPDX-License-Identifier: Apache-2.0

// Package interop tests locks that fencelock shares with other libraries, with these
// libraries themselves, each in a process that is driven by lines.
//
// go test runs a short set with the newest version, make interop runs all versions and
// writes lab/results/interop.md.
package interop
