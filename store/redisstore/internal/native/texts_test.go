// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestTextOfAScriptIsSentForAllSessionsAtOnce: a server that took over knows no script. Hundreds of sessions of a
// process find that out at the same time, and the text of a script, tens of kilobytes, is sent a few
// times, not once for each of them.
func TestTextOfAScriptIsSentForAllSessionsAtOnce(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			store := lib.open(t, login{Addr: server.Addr}, &native.Options{Namespace: t.Name()})
			const many = 300
			sessions := make([]driver.Session, many)
			together := func(f func(i int) error) {
				t.Helper()
				var all sync.WaitGroup
				for i := range many {
					all.Go(func() {
						if err := f(i); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
			together(func(i int) (err error) {
				sessions[i], _, err = store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: time.Minute})
				return err
			})
			for _, command := range [][]any{{"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
				must.OK(t, server.Do(command...).Err())
			}
			together(func(i int) error {
				_, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: time.Minute})
				return err
			})
			calls, _, _ := strings.Cut(strings.TrimPrefix(server.Info("commandstats", "cmdstat_eval"), "calls="), ",")
			n, err := strconv.Atoi(calls)
			if err != nil || n < 1 || n > 5 {
				t.Errorf("the text was sent %d times for %d sessions, %v", n, many, err)
			}
		})
	}
}
