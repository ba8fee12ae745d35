// SPDX-License-Identifier: Apache-2.0

// Package shard tests the markers of package shard on real servers.
package shard
