// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// inodeOf asks the kernel for the socket of loopback with these ports, which it finds without a search: man 7 sock_diag.
// /proc/net/tcp was as long as the machine had connections, and read for each new one. A cluster of Redis that had lost its
// links dialed faster than that, until its proxies had as many files open as they may.
func inodeOf(local, remote int) (string, error) {
	const (
		protocol   = 4  // NETLINK_SOCK_DIAG
		byFamily   = 20 // SOCK_DIAG_BY_FAMILY
		header     = 16 // nlmsghdr
		ports      = 8  // where inet_diag_req_v2 has the inet_diag_sockid
		size       = header + 56
		inodeAt    = header + 68 // in the inet_diag_msg of the answer
		answerSize = inodeAt + 4
	)
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, protocol)
	if err != nil {
		return "", os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	var ask [size]byte
	native := binary.NativeEndian
	native.PutUint32(ask[0:], size)
	native.PutUint16(ask[4:], byFamily)
	native.PutUint16(ask[6:], syscall.NLM_F_REQUEST)
	ask[header], ask[header+1] = syscall.AF_INET, syscall.IPPROTO_TCP // those of version 6 with an address of 4, too
	native.PutUint32(ask[header+4:], ^uint32(0))                      // in any state
	id := ask[header+ports:]
	binary.BigEndian.PutUint16(id, uint16(local))
	binary.BigEndian.PutUint16(id[2:], uint16(remote))
	copy(id[4:], []byte{127, 0, 0, 1})
	copy(id[20:], []byte{127, 0, 0, 1})
	for i := range 8 {
		id[40+i] = 0xff // no cookie
	}
	if err := syscall.Sendto(fd, ask[:], 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return "", os.NewSyscallError("sendto", err)
	}
	var answer [512]byte
	n, _, err := syscall.Recvfrom(fd, answer[:], 0)
	if err != nil {
		return "", os.NewSyscallError("recvfrom", err)
	}
	switch kind := native.Uint16(answer[4:]); {
	case kind == syscall.NLMSG_ERROR && n >= header+4:
		return "", fmt.Errorf("sock_diag: %w", syscall.Errno(-int32(native.Uint32(answer[header:]))))
	case kind != byFamily || n < answerSize:
		return "", errors.New("sock_diag: the answer has no socket in it")
	}
	inode := native.Uint32(answer[inodeAt:])
	if inode == 0 {
		return "", errors.New("the connection is over")
	}
	return strconv.FormatUint(uint64(inode), 10), nil
}
