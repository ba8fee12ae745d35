// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package supervisor

import "golang.org/x/sys/unix"

// clockID counts suspend on Darwin; on the BSDs it does not, and a machine that
// slept may run the command for a moment longer.
const clockID = unix.CLOCK_MONOTONIC
