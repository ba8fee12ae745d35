// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

func dieWithUs() *syscall.SysProcAttr { return nil }
