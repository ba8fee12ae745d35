// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestACLSuffices: a user with the line of Store.ACL can do everything. It runs one
// case of each clause, in real time, which TestConformance does not.
func TestACLSuffices(t *testing.T) {
	t.Parallel()
	var cases []drivertest.Case
	for _, c := range drivertest.Cases() {
		if len(cases) == 0 || cases[len(cases)-1].Clause.ID != c.Clause.ID {
			cases = append(cases, c)
		}
	}
	for i, flavor := range redistest.Flavors {
		for j, lib := range libraries {
			opts, servers := native.Options{Namespace: "fencelock"}, 6 // other namespaces are forbidden
			if grace := i != j; grace {                                // one half with, the other without
				opts.Grace, opts.MaxTTL, servers = true, 8*time.Second, 12
			}
			t.Run(fmt.Sprintf("%s/%s/grace=%t", flavor, lib.name, opts.Grace), func(t *testing.T) {
				t.Parallel()
				_, to := startWithUser(t, flavor)
				redistest.Use(t, lib.open(t, to, &opts), lib.open(t, to, &opts))
				if findings, err := lib.open(t, to, &opts).Check(t.Context()); err != nil || len(findings) != 0 {
					t.Errorf("check: got %v, %v", findings, err)
				}
				var all []func(*testing.T) *drivertest.Harness
				for range servers {
					server, to := startWithUser(t, flavor)
					rig := &rig{lib: lib, to: to}
					t.Cleanup(rig.close)
					h := rig.harness(opts)
					h.TTL, h.Slack = 4*time.Second, 1500*time.Millisecond // more than a busy machine stalls
					rig.let(h, server.Losses())
					all = append(all, on(h))
				}
				drivertest.RunCases(t, cases, all...)
			})
		}
	}
}
