// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
)

// monitor records the commands of a server until the returned function is called, those of
// scripts, too.
func monitor(t testing.TB, server *servers.RedisServer) (stop func() []string) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	must(t, err)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR answered %q", lines.Text())
	}
	return func() (all []string) {
		must(t, server.Do("ECHO", "the end").Err())
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"the end"`) {
				return all
			}
			all = append(all, lines.Text())
		}
		t.Fatal("the connection of MONITOR broke")
		return nil
	}
}

var (
	word    = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	holders = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+`)
	digits  = regexp.MustCompile(`^\d+$`)
)

// written returns what the scripts of a recording wrote and published about a lock, in
// Redisson's own terms: a hash field that is counted up is one that is set. What the other side
// never reads is left out: fencelock's own keys and field, and the latch of an unlock.
func written(lines []string, name string) (all []string) {
	for _, line := range lines {
		if !strings.Contains(line, " lua] ") {
			continue
		}
		var words []string
		for _, m := range word.FindAllStringSubmatch(line, -1) {
			words = append(words, m[1])
		}
		if len(words) < 2 || !strings.Contains(words[1], name) || strings.Contains(words[1], "unlock_latch") {
			continue
		}
		key := strings.ReplaceAll(words[1], name, "NAME")
		switch strings.ToLower(words[0]) {
		case "hset", "hincrby":
			for i := 2; i+1 < len(words); i += 2 {
				field := holders.ReplaceAllString(words[i], "UUID:NUMBER")
				down := strings.HasPrefix(words[i+1], "-") // to 0, before the key is deleted
				if field != "fencelock" && !down {
					all = append(all, fmt.Sprintf("hash %s: %s = %s", key, field, words[i+1]))
				}
			}
		case "pexpire":
			all = append(all, "lease of "+key)
		case "del", "publish", "spublish":
			all = append(all, strings.Join(append([]string{strings.ToLower(words[0]), key}, words[2:]...), " "))
		case "incr", "set":
			all = append(all, "number in "+key)
			if slices.Contains(words, "PX") {
				all = append(all, "lease of "+key)
			}
		}
	}
	return all
}

// sameOnTheWire: Go writes and publishes what Redisson does.
func sameOnTheWire(s *scene) {
	s = s.apart()
	java, locks := s.java(), s.client(ttl)
	s.unlock(s.lock(locks)) // opens the session
	java.Must("a", "LOCK", s.kind, s.name, -1)
	java.Must("a", "UNLOCK", s.kind, s.name)
	stop := monitor(s, s.server)
	java.Must("a", "LOCK", s.kind, s.name, -1)
	java.Must("a", "UNLOCK", s.kind, s.name)
	theirs := written(stop(), s.name)
	stop = monitor(s, s.server)
	s.unlock(s.lock(locks))
	ours := written(stop(), s.name)
	if s.kind == "lock" { // getLock takes no token
		ours = slices.DeleteFunc(ours, func(l string) bool { return strings.HasPrefix(l, "number in redisson_lock_token") })
	}
	if len(theirs) < 4 || !slices.Equal(ours, theirs) {
		s.Errorf("Go writes\n\t%s\nRedisson %s writes\n\t%s", strings.Join(ours, "\n\t"), s.version, strings.Join(theirs, "\n\t"))
	}
	token, _ := s.server.Do("GET", "redisson_lock_token:{"+s.name+"}").Text()
	if !digits.MatchString(token) {
		s.Errorf("the token is %q, want a number that Java reads", token)
	}
}
