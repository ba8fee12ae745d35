// SPDX-License-Identifier: Apache-2.0

package filefence

import "context"

// Hold takes the lock of the kernel beside a pointer.
func Hold(ctx context.Context, path string) (func(), error) {
	return (&Local{path: path}).hold(ctx)
}
