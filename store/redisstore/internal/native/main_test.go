// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// together is how many tests run at a time: far more than there are processors,
// because nearly all of them wait, for a failover or for a grace.
const together = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", together)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // most servers here have something to warn of
	redis.SetLogger(silence{})
	os.Exit(m.Run())
}

// silence discards the log of go-redis, which reports every broken connection: in these
// tests nearly all connections break.
type silence struct{}

// Printf implements the logger of go-redis.
func (silence) Printf(context.Context, string, ...any) {}
