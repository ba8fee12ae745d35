// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package server

import "errors"

// mount has no disk in memory here.
func mount(string, string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }
