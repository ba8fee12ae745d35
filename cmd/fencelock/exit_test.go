// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestMessagesHaveOnePrefix: errors of the library begin with the name of the program,
// too.
func TestMessagesHaveOnePrefix(t *testing.T) {
	var b strings.Builder
	a := &app{err: &b}
	a.note("%v", errors.Join(errors.New("fencelock: close (redis): context deadline exceeded"), errors.New("fencelock: lease lost")))
	if got, want := b.String(), "fencelock: close (redis): context deadline exceeded; lease lost\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSignalsAreNamed: as in a manual, not as the system describes them.
func TestSignalsAreNamed(t *testing.T) {
	if got := interrupted(syscall.SIGTERM).Error(); got != "interrupted by SIGTERM" {
		t.Errorf("got %q", got)
	}
}
