// SPDX-License-Identifier: Apache-2.0

package tests

import "context"

func inTest(ctx context.Context) {
	_, _ = locks.Mutex("a").Lock(ctx)
}
