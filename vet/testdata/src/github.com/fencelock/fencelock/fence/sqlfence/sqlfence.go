// SPDX-License-Identifier: Apache-2.0

// Package sqlfence stands for the guards of package fence.
package sqlfence

type Table struct{}
