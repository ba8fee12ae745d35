// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

// bind watches a process by its number: there is nothing better here.
func bind(pid int) (gone func() bool, send func(syscall.Signal)) { return bindByNumber(pid) }

func keepDescriptors() { markDescriptors() }
