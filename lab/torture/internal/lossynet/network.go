// SPDX-License-Identifier: Apache-2.0

package lossynet

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
)

// The addresses of the two sides. The namespaces are apart, so every wire has the same.
const (
	nearNet, nearAddr = "10.99.0.0/24", "10.99.0.1/24"
	farNet, farHost   = "10.99.1.0/24", "10.99.1.%d"
)

// resourceHost is the host whose packets pass untouched, firstClient that of client 0.
const resourceHost, firstClient = 9, 10

// Network is between clients and the far side. Close ends it.
type Network struct {
	near, far *namespace
	f         *forwarder
	devices   []*device
	over      sync.WaitGroup
}

// New makes a wire whose chance comes from a seed. It fails if this process may not make
// namespaces or TUN devices.
func New(seed uint64) (*Network, error) {
	w := &Network{f: newForwarder(seed)}
	err := w.make()
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("a wire of packets needs the right to make network namespaces and /dev/net/tun: %w; run it as root", err)
	}
	w.over.Go(func() { w.f.run(request, w.devices[0], w.devices[1]) })
	w.over.Go(func() { w.f.run(reply, w.devices[1], w.devices[0]) })
	return w, nil
}

// make makes the namespaces and the devices.
func (w *Network) make() (err error) {
	if w.near, err = newNamespace(); err != nil {
		return err
	}
	if w.far, err = newNamespace(); err != nil {
		return err
	}
	for _, side := range []struct {
		ns       *namespace
		commands string
	}{
		{w.near, "ip link set lo up; ip addr add " + nearAddr + " dev wire; ip link set wire up; ip route add " + farNet + " dev wire"},
		{w.far, "ip link set lo up; ip link set wire up; ip route add local " + farNet + " dev lo; ip route add " + nearNet + " dev wire"},
	} {
		d, err := side.ns.device("wire")
		if err != nil {
			return err
		}
		w.devices = append(w.devices, d)
		for command := range strings.SplitSeq(side.commands, "; ") {
			if err := side.ns.command(strings.Fields(command)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Set changes the wire of a client, and returns how many packets the state before had touched.
func (w *Network) Set(client int, s State) (touched int) { return w.f.set(firstClient+byte(client), s) }

// Listen listens on the far side for a client.
func (w *Network) Listen(client int) (net.Listener, error) {
	return w.far.listen(fmt.Sprintf(farHost+":0", firstClient+client))
}

// ListenResource listens on the far side for all clients, past all faults.
func (w *Network) ListenResource() (net.Listener, error) {
	return w.far.listen(fmt.Sprintf(farHost+":0", resourceHost))
}

// Start starts a command of a client. It ends with the wire at the latest.
func (w *Network) Start(cmd *exec.Cmd) error { return w.near.start(cmd) }

// Close removes the devices and the namespaces.
func (w *Network) Close() {
	for _, d := range w.devices {
		_ = d.Close()
	}
	w.over.Wait()
	for _, ns := range []*namespace{w.near, w.far} {
		if ns != nil {
			ns.close()
		}
	}
}
