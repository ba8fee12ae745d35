// SPDX-License-Identifier: Apache-2.0

// Package lossynet is a lossy network between the clients of a cell and its servers: two network
// namespaces, joined by two TUN devices and a forwarder in this process that drops, delays,
// reorders, duplicates and corrupts IP packets.
//
//	clients ─ TCP ─ kernel ─ TUN ─▶ forwarder ─▶ TUN ─ kernel ─ TCP ─ proxies ─▶ servers
//	 namespace of the clients        one State       namespace of      loopback of
//	                                 for each host    the far side      the machine
//
// Each client has its own host on the far side, so each can have its own State. Packets to the
// host of the resource pass untouched. The namespaces have no names: the kernel removes them,
// and the devices, when the process that made them ends, however it ends.
package lossynet

import (
	"math/rand/v2"
	"time"
)

// State is how bad the wire of one host is, in both directions if nothing else is said. The
// zero value is a good one. Shares are in percent of the packets.
type State struct {
	// Lose packets are dropped, Corrupt have a bit flipped, Twice come twice.
	Lose, Corrupt, Twice int
	// Late packets are delayed by By, so that those behind overtake them.
	Late int
	By   time.Duration
	// Slow delays every packet by By, and lets only Rate bytes pass in a second.
	Slow bool
	// NoRequests and NoReplies drop everything in one direction.
	NoRequests, NoReplies bool
	// Flap drops everything for By, then nothing for By, and so on.
	Flap bool
}

// Rate is how many bytes pass in a second on a slow wire; full is for how long packets wait
// there before others are dropped.
const (
	Rate = 32 << 10
	full = 500 * time.Millisecond
)

// direction is where a packet goes.
type direction int

const (
	request direction = iota // from a client
	reply                    // to a client
)

// fate is what happens to a packet.
type fate struct {
	drop, corrupt bool
	after         time.Duration
	again         bool // it comes a second time, By later
}

// touched reports whether the packet does not pass as it is.
func (f fate) touched() bool { return f != fate{} }

// decide returns the fate of a packet. age is how old the state is, queued for how long the
// packets before it still need on a slow wire, and chance the seeded source of all chance.
func (s State) decide(d direction, size int, age, queued time.Duration, chance *rand.Rand) (f fate) {
	hit := func(percent int) bool { return percent > 0 && chance.IntN(100) < percent }
	switch {
	case s.NoRequests && d == request, s.NoReplies && d == reply:
		f.drop = true
	case s.Flap && s.By > 0 && age/s.By%2 == 0:
		f.drop = true
	case s.Slow && queued > full:
		f.drop = true
	case s.Slow:
		f.after = queued + s.onWire(size) + s.By
	}
	f.drop = f.drop || hit(s.Lose)
	f.corrupt = hit(s.Corrupt)
	f.again = hit(s.Twice)
	if hit(s.Late) {
		f.after += s.By
	}
	return f
}

// onWire is how long a packet takes on a slow wire.
func (s State) onWire(size int) time.Duration {
	return time.Duration(size) * time.Second / Rate
}

// corrupt flips a bit behind the header of an IP packet; the checksum of TCP finds it.
func corrupt(packet []byte, chance *rand.Rand) {
	const header = 20
	if len(packet) > header {
		packet[header+chance.IntN(len(packet)-header)] ^= 1 << chance.IntN(8)
	}
}

// hostOf returns the last byte of the address on the far side, and whether the packet is IPv4.
func hostOf(d direction, packet []byte) (byte, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return 0, false
	}
	if d == request {
		return packet[19], true
	}
	return packet[15], true
}
