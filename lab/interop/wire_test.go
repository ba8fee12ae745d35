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

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// monitor records the commands of a server until the returned function is called, those of
// scripts, too.
func monitor(t testing.TB, server *servers.RedisServer) (stop func() []string) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr)
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	must.OK(t, err)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR answered %q", lines.Text())
	}
	return func() (all []string) {
		must.OK(t, server.Do("ECHO", "the end").Err())
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
	stop := monitor(s, s.server())
	java.Must("a", "LOCK", s.kind, s.name, -1)
	java.Must("a", "UNLOCK", s.kind, s.name)
	theirs := written(stop(), s.name)
	stop = monitor(s, s.server())
	s.unlock(s.lock(locks))
	ours := written(stop(), s.name)
	if s.kind == "lock" { // getLock takes no token
		ours = slices.DeleteFunc(ours, func(l string) bool { return strings.HasPrefix(l, "number in redisson_lock_token") })
	}
	if len(theirs) < 4 || !slices.Equal(ours, theirs) {
		s.Errorf("Go writes\n\t%s\nRedisson %s writes\n\t%s", strings.Join(ours, "\n\t"), s.version, strings.Join(theirs, "\n\t"))
	}
	token, _ := s.server().Do("GET", "redisson_lock_token:{"+s.name+"}").Text()
	if !digits.MatchString(token) {
		s.Errorf("the token is %q, want a number that Java reads", token)
	}
}

// kept returns all that a server keeps about a lock while it is held, field by field: keys with their
// types, fields and values, and whether they end by themselves. What the other side never reads is
// left out.
func kept(t testing.TB, server *servers.RedisServer, name string) (all []string) {
	t.Helper()
	keys, err := server.Do("KEYS", "*"+name+"*").StringSlice()
	must.OK(t, err)
	for _, key := range keys {
		if strings.Contains(key, "unlock_latch") {
			continue
		}
		shown := holders.ReplaceAllString(strings.ReplaceAll(key, name, "NAME"), "UUID:NUMBER")
		ttl, err := server.Do("PTTL", key).Int()
		must.OK(t, err)
		all = append(all, fmt.Sprintf("%s ends by itself: %v", shown, ttl > 0))
		switch kind, _ := server.Do("TYPE", key).Text(); kind {
		case "hash":
			pairs, err := server.Do("HGETALL", key).StringSlice()
			must.OK(t, err)
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] != "fencelock" {
					all = append(all, fmt.Sprintf("%s: hash %s = %s", shown, holders.ReplaceAllString(pairs[i], "UUID:NUMBER"), pairs[i+1]))
				}
			}
		case "string":
			text, err := server.Do("GET", key).Text()
			must.OK(t, err)
			if strings.Contains(key, "redisson_lock_token") && digits.MatchString(text) {
				text = "a number"
			}
			all = append(all, fmt.Sprintf("%s: string %s", shown, text))
		default:
			all = append(all, shown+": "+kind)
		}
	}
	slices.Sort(all)
	return all
}

// commands returns what processes sent about a lock, outside of scripts: subscriptions.
func commands(lines []string, name string) (all []string) {
	for _, line := range lines {
		if strings.Contains(line, " lua] ") || !strings.Contains(line, name) {
			continue
		}
		var words []string
		for _, m := range word.FindAllStringSubmatch(line, -1) {
			words = append(words, m[1])
		}
		if len(words) > 1 && strings.HasSuffix(strings.ToLower(words[0]), "subscribe") {
			all = append(all, strings.ToLower(words[0])+" "+strings.ReplaceAll(words[1], name, "NAME"))
		}
	}
	return all
}

// sides are what Java calls the two sides of a kind of lock, and whether Go reads.
func (s *scene) sides() map[string]bool {
	if s.kind == "readwrite" {
		return map[string]bool{"write": false, "read": true}
	}
	return map[string]bool{s.kind: false}
}

// sameInStore: while one side holds the lock, the server has the same keys, fields and values as if
// the other side held it. Waiters listen on the same channel, renewals write the same keys, and an
// end by force deletes and publishes the same.
func sameInStore(s *scene) {
	s = s.apart()
	java, locks := s.java(), s.client(ttl)
	for kind, reads := range s.sides() {
		take := s.lock
		if reads {
			take = s.rlock
		}
		compare := func(what string, ours, theirs []string) {
			s.Helper()
			if kind == "lock" { // getLock takes no token
				ours = slices.DeleteFunc(ours, func(l string) bool { return strings.Contains(l, "redisson_lock_token") })
			}
			if len(theirs) == 0 || !slices.Equal(ours, theirs) {
				s.Errorf("%s of %s: Go has\n\t%s\nRedisson %s has\n\t%s", what, kind, strings.Join(ours, "\n\t"), s.version, strings.Join(theirs, "\n\t"))
			}
		}
		waiter := s.kind
		if s.kind == "readwrite" {
			waiter = "write"
		}

		// Java holds and renews; a Go process waits. Then the other way round.
		stop := monitor(s, s.server())
		java.Must("a", "LOCK", kind, s.name, -1)
		theirs := kept(s, s.server(), s.name)
		waiting := s.locking(locks)
		s.listened(1)
		theirRenewal := s.renewals(kind)
		java.Must("a", "UNLOCK", kind, s.name)
		s.leaves(waiting)
		ourChannel := commands(stop(), s.name)

		s.deaf()
		stop = monitor(s, s.server())
		l := take(locks)
		ours := kept(s, s.server(), s.name)
		asked := java.Ask("w", "LOCK", waiter, s.name, -1)
		s.listened(1)
		ourRenewal := s.renewals(kind)
		s.unlock(l)
		must.OK(s, await(s, "lock() in Java", asked).Err())
		java.Must("w", "UNLOCK", waiter, s.name)
		theirChannel := commands(stop(), s.name)

		compare("what is kept", ours, theirs)
		compare("the channel of a waiter", channels(ourChannel), channels(theirChannel))
		compare("a renewal", ourRenewal, theirRenewal)
	}
}

// channels are the subscriptions among commands, each once.
func channels(commands []string) []string {
	all := slices.DeleteFunc(commands, func(c string) bool { return !strings.HasPrefix(c, "subscribe ") })
	slices.Sort(all)
	return slices.Compact(all)
}

// renewals returns which leases the next renewal of the holder extends, of either side. Go makes the
// key of a reader again, where Redisson only extends it.
func (s *scene) renewals(kind string) []string {
	s.Helper()
	stop := monitor(s, s.server())
	last := 0
	must.OK(s, servers.Await("the holder of "+kind+" renews", func() bool {
		left, err := s.server().Do("PTTL", s.name).Int()
		renewed := err == nil && left > last && last > 0
		last = left
		return renewed
	}))
	return slices.DeleteFunc(normal(written(stop(), s.name)), func(l string) bool { return !strings.HasPrefix(l, "lease of ") })
}

// deaf waits until no process listens to the lock any more.
func (s *scene) deaf() { s.Helper(); s.listened(0) }
