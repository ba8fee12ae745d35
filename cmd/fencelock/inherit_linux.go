// SPDX-License-Identifier: Apache-2.0

package main

import "golang.org/x/sys/unix"

// keepDescriptors makes sure that a process started from now on gets none of our
// descriptors but 0 to 2.
func keepDescriptors() {
	if unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) != nil {
		markDescriptors() // a kernel before 5.11
	}
}
