// SPDX-License-Identifier: Apache-2.0

// Package grace tests how a fleet of real processes gets grace by a rolling deployment and
// lives with it: servers that come back empty, and failovers.
//
//	make figures-grace
package grace
