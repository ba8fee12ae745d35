// SPDX-License-Identifier: Apache-2.0

// Package rediscmd is what the layouts in Redis share: what they need of a client library,
// scripts that carry a run id, and how replies and errors are read.
package rediscmd
