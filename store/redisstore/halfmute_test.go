// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// halfMute listens as a server that answers the greeting and PING, and says no word
// to INFO. It ends with the test; asked is closed when the first INFO came.
func halfMute(t *testing.T) (addr string, asked <-chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	info := make(chan struct{})
	var once sync.Once
	answer := func(conn net.Conn) {
		defer conn.Close()
		for lines := bufio.NewReader(conn); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// Only the names of commands are looked at: what is asked beside them is
			// of no interest, and no argument is spelled as one of them.
			reply := ""
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "ping":
				reply = "+PONG\r\n"
			case "hello":
				reply = "-ERR unknown command 'hello'\r\n"
			case "client":
				reply = "+OK\r\n"
			case "info":
				once.Do(func() { close(info) })
			}
			if _, err := io.WriteString(conn, reply); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	return l.Addr().String(), info
}

// TestOpenEndsAfterPing: a server that answers PING and then falls silent is as
// unavailable as one that never answered, and Open says where it is.
func TestOpenEndsAfterPing(t *testing.T) {
	t.Parallel()
	addr, asked := halfMute(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		select {
		case <-asked:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := Open(ctx, "redis://"+addr+"?read_timeout=50s", nil)
	if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "redisstore: open "+addr) {
		t.Errorf("got %v, want an unavailable store with its address", err)
	}
}
