// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock/drivertest"
)

// station is a place to run one case after the other.
type station interface {
	harness() *drivertest.Harness
	done()
}

// atStations runs each case on whichever server is free. The last in the list take
// longest, so it begins with them.
func atStations[S station](t *testing.T, cases []drivertest.Case, rigs []S) {
	results := make([]chan drivertest.Result, len(cases))
	for i := range results {
		results[i] = make(chan drivertest.Result, 1)
	}
	var left atomic.Int64
	left.Store(int64(len(cases)))
	var working sync.WaitGroup
	defer working.Wait()
	for _, r := range rigs {
		working.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				results[i] <- cases[i].Check(t.Context(), r.harness())
				r.done()
			}
		})
	}
	skipped := 0
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			result := <-results[i]
			if result.Skipped != "" {
				skipped++
			}
			report(t, result)
		})
	}
	t.Logf("%d cases, %d skipped, %d servers", len(cases), skipped, len(rigs))
}
