// SPDX-License-Identifier: Apache-2.0

package supervisor

import "golang.org/x/sys/unix"

const clockID = unix.CLOCK_BOOTTIME
