// SPDX-License-Identifier: Apache-2.0

//go:build stepped

package event

import "time"

// setClock sets the wall clock of this process so far ahead; event_step.go adds SetAhead to package time.
func setClock(ahead time.Duration) error {
	time.SetAhead(int64(ahead / time.Second))
	return nil
}
