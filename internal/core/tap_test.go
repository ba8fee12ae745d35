// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"errors"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
)

func tap(store driver.Store) *locktest.Tap { return locktest.NewTap(store) }

// errNoAuth is an answer that trying again does not change.
var errNoAuth = errors.New("NOAUTH authentication required")

// stuck is a place where calls hang whatever their context says.
type stuck chan struct{}

func (s stuck) hang() { <-s }
