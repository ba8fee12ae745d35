// SPDX-License-Identifier: Apache-2.0

// Package quorum tests store/quorum on five real Redis servers: faults, clocks that are
// set, tokens while servers are killed, and the figures of make figures-quorum.
package quorum
