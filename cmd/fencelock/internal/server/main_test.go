// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // tests kill servers
	os.Exit(m.Run())
}
