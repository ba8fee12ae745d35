// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package lossynet

import (
	"errors"
	"net"
	"os"
	"os/exec"
)

// namespace does not exist here.
type namespace struct{}

type device struct{ *os.File }

func newNamespace() (*namespace, error) { return nil, errors.ErrUnsupported }

func (*namespace) close() {}

func (*namespace) listen(string) (net.Listener, error) { return nil, errors.ErrUnsupported }

func (*namespace) start(*exec.Cmd) error { return errors.ErrUnsupported }

func (*namespace) command([]string) error { return errors.ErrUnsupported }

func (*namespace) device(string) (*device, error) { return nil, errors.ErrUnsupported }
