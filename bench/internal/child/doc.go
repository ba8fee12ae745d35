// SPDX-License-Identifier: Apache-2.0

// Package child keeps the processes that a benchmark starts from outliving it.
package child
