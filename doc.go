// SPDX-License-Identifier: Apache-2.0

// Package fencelock gives distributed locks that are honest.
package fencelock
