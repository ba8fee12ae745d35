// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Check asks the server and returns what makes it a worse place for locks, each
// with the reason and what to change. It writes nothing. That memcached is for
// efficiency only is always the first finding.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	type answer struct{ stats, settings map[string]string }
	got, err := run(ctx, s, "check", func(c *call) (answer, error) {
		conn, err := s.dial(ctx)
		if err != nil {
			return answer{}, c.failed(err)
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		stats, err1 := ask(conn, r, "stats")
		settings, err2 := ask(conn, r, "stats settings")
		if err := errors.Join(err1, err2); err != nil {
			return answer{}, c.failed(err)
		}
		return answer{stats, settings}, nil
	})
	if err != nil {
		return nil, err
	}
	return judge(s.addr, got.stats, got.settings), nil
}

func (s *Store) dial(ctx context.Context) (net.Conn, error) {
	dial := s.opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: s.opts.Timeout}).DialContext
	}
	conn, err := dial(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(s.opts.Timeout))
}

// ask sends a stats command. The client library has none.
func ask(w io.Writer, r *bufio.Reader, command string) (map[string]string, error) {
	if _, err := fmt.Fprintf(w, "%s\r\n", command); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "STAT":
			name, value, _ := strings.Cut(rest, " ")
			found[name] = value
		case "END":
			return found, nil
		default:
			return nil, fmt.Errorf("unexpected answer to %s: %q", command, line)
		}
	}
}

// judge turns what the server answered into findings.
func judge(addr string, stats, settings map[string]string) []driver.Finding {
	var found []driver.Finding
	add := func(s driver.Severity, code, reason, fix string) {
		found = append(found, driver.Finding{Severity: s, Code: code, Node: addr, Reason: reason, Fix: fix})
	}
	add(driver.Note, "efficiency-only", "memcached gives no fencing tokens and loses all locks when it restarts", advice)
	number := func(from map[string]string, name string) (int64, bool) {
		n, err := strconv.ParseInt(from[name], 10, 64)
		return n, err == nil
	}
	evicted, known := number(stats, "evictions")
	limit, sized := number(stats, "limit_maxbytes")
	used, _ := number(stats, "bytes")
	evicts := settings["evictions"] != "off"
	room := fmt.Sprintf("its limit is %d MB", limit>>20)
	switch {
	case !known || !sized:
		add(driver.Note, "eviction-unchecked", "the server does not report evictions and limit_maxbytes", "check whether its memory can fill up")
	case !evicts:
		add(driver.Note, "no-eviction", "the server does not evict; when its memory is full, nothing can be locked", "watch its memory")
	case evicted > 0:
		add(driver.Danger, "evicted", fmt.Sprintf("the server has evicted %d items since it started, locks and sessions may be among them: %s", evicted, room),
			"use a dedicated memcached for locks, or give it more memory (-m)")
	case used > limit/2:
		add(driver.Warning, "eviction-near", fmt.Sprintf("the server may evict locks when its memory is full, and uses %d MB: %s", used>>20, room),
			"use a dedicated memcached for locks, or give it more memory (-m)")
	default:
		add(driver.Warning, "eviction", "the server may evict locks when its memory is full: "+room,
			"use a dedicated memcached for locks, where memory is never short, or run it with -M")
	}
	if settings["cas_enabled"] == "no" {
		add(driver.Danger, "cas", "the server runs without cas, so locks cannot be taken over or given back", "start it without -C")
	}
	return found
}
