// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filefence

import (
	"errors"
	"os"
)

const haveFlock = false

func tryFlock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
