// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// MemcachedServer is a memcached.
type MemcachedServer struct{ *Server }

// Memcached starts memcached. args are further arguments of its command line.
func Memcached(args ...string) (*MemcachedServer, error) {
	program, err := memcached.find()
	if err != nil {
		return nil, err
	}
	return started(func() (*MemcachedServer, error) {
		s, err := newServer("memcached", "")
		if err != nil {
			return nil, err
		}
		s.args = append([]string{program, "-l", "127.0.0.1", "-p", strconv.Itoa(s.Port), "-U", "0"}, args...)
		if os.Geteuid() == 0 {
			s.args = append(s.args, "-u", "nobody") // memcached does not run as root
		}
		m := &MemcachedServer{s}
		s.answers = func() bool {
			_, err := m.Version()
			return err == nil
		}
		return m, nil
	})
}

// Version returns the version of the server.
func (m *MemcachedServer) Version() (version string, err error) {
	return version, m.ask("version", func(line string) {
		if v, ok := strings.CutPrefix(line, "VERSION "); ok {
			version = v
		}
	})
}

// Stats returns the server's counters.
func (m *MemcachedServer) Stats() (map[string]int64, error) {
	counters := map[string]int64{}
	err := m.ask("stats", func(line string) {
		var name string
		var value int64
		if n, _ := fmt.Sscanf(line, "STAT %s %d", &name, &value); n == 2 {
			counters[name] = value
		}
	})
	return counters, err
}

// ask sends a command and passes on the lines of the answer.
func (m *MemcachedServer) ask(command string, each func(line string)) error {
	conn, err := net.DialTimeout("tcp", m.Addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintf(conn, "%s\r\nquit\r\n", command); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		each(lines.Text())
	}
	return lines.Err()
}
