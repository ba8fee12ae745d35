// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// small mounts a small disk in memory as the folder of a server.
func (p *Process) small() error {
	if err := syscall.Mount("tmpfs", p.dir, "tmpfs", 0, "size=4m"); err != nil {
		return fmt.Errorf("a small disk cannot be mounted: %w; run it as root", err)
	}
	p.disk = p.dir
	return nil
}

// FillDisk leaves nothing free on the small disk of a server, until the function
// that it returns is called.
func (p *Process) FillDisk() (empty func() error, err error) {
	if p.disk == "" {
		return nil, errors.New("the server has no small disk")
	}
	path := filepath.Join(p.disk, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for size := len(block); size > 0; {
		if _, err := f.Write(block[:size]); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				return nil, err
			}
			size /= 2 // what is left is smaller
		}
	}
	return func() error { return os.Remove(path) }, nil
}
