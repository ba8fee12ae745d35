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
func (r *Redis) small() error {
	if err := mount(r.Dir(), "4m"); err != nil {
		return fmt.Errorf("a small disk cannot be mounted: %w; run it as root", err)
	}
	r.disk = r.Dir()
	return nil
}

// ballast leaves nothing free on the small disk of a server, until the function
// that it returns is called.
func (r *Redis) ballast() (empty func() error, err error) {
	if r.disk == "" {
		return nil, errors.New("the server has no small disk")
	}
	path := filepath.Join(r.disk, "ballast")
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
