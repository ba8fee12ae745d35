// SPDX-License-Identifier: Apache-2.0

package server

import "syscall"

// mount mounts a disk in memory at a folder.
func mount(dir, size string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size) }

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
