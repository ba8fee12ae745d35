// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"io"
	"testing"
)

// disk accepts a number of bytes and then is full.
type disk struct {
	bytes.Buffer
	free int
}

func (d *disk) Write(text []byte) (int, error) {
	n, _ := d.Buffer.Write(text[:min(len(text), d.free)])
	d.free -= n
	if n < len(text) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// TestLineAfterATornLineStandsAlone: what a full disk left of a line does not spoil the next,
// and a write that left nothing adds no empty line.
func TestLineAfterATornLineStandsAlone(t *testing.T) {
	var l Log
	d := &disk{free: 5}
	write := func(free int, line string) {
		d.free = free
		_ = l.appendLocked(d, []byte(line))
	}
	write(100, "one")
	write(0, "two")
	write(2, "three")
	write(0, "four")
	write(100, "five")
	write(100, "six")
	if got, want := d.String(), "one\nth\nfive\nsix\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
