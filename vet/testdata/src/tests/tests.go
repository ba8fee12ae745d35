// SPDX-License-Identifier: Apache-2.0

// Package tests has a test and an example that do the same.
package tests

import "github.com/fencelock/fencelock"

var locks *fencelock.Client
