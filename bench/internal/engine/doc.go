// SPDX-License-Identifier: Apache-2.0

// Package engine starts the servers that are measured, on free loopback ports,
// reads what they count, and stops them.
package engine
