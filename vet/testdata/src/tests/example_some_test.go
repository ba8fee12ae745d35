// SPDX-License-Identifier: Apache-2.0

package tests

import "context"

func inExample(ctx context.Context) {
	_, _ = locks.Mutex("a").Lock(ctx) // want `is dropped`
}
