// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// findings is a list to add to.
type findings []driver.Finding

func (f *findings) add(s driver.Severity, code, node, fix, reason string, args ...any) {
	*f = append(*f, driver.Finding{Severity: s, Code: code, Node: node, Fix: fix, Reason: fmt.Sprintf(reason, args...)})
}

// judge decides what is wrong.
func (s *Store) judge(reports []report) []driver.Finding {
	var found findings
	versions := map[string]bool{}
	standalone, voters := 0, 0
	for _, r := range reports {
		switch {
		case r.err != nil:
			found.add(driver.Warning, "unreachable", r.server, "start it, or take it out of the URL if it is gone for good",
				"it does not answer: the ensemble survives one failure fewer")
			continue
		case strings.Contains(r.srvr, "not currently serving"):
			found.add(driver.Danger, "serving", r.server, "start the others; check its network", "it serves no requests: it is cut off, or a majority is down")
			continue
		case refused(r.srvr):
			found.add(driver.Note, "unchecked", r.server, "add srvr and conf to 4lw.commands.whitelist", "it does not answer srvr, so nothing is known about it")
			continue
		}
		version := versionOf(r.srvr)
		versions[version] = true
		switch mode := field(r.srvr, "Mode:"); {
		case mode == "standalone":
			standalone++
		case mode == "read-only":
			found.add(driver.Danger, "serving", r.server, "start the others; check its network", "it serves reads only: it is cut off from the majority")
		}
		if !supported(version) {
			found.add(driver.Danger, "version", r.server, "use 3.5 or later", "ZooKeeper %s is too old: the store needs 3.5", version)
		}
		s.judgeSettings(&found, r)
		voters = max(voters, votersOf(r.conf))
	}
	judgeMembers(&found, len(s.servers), standalone, voters)
	if len(versions) > 1 {
		found.add(driver.Note, "version", "", "finish the upgrade", "the servers have different versions")
	}
	return found
}

// judgeMembers compares the servers that the store knows with the ensemble.
func judgeMembers(found *findings, known, standalone, voters int) {
	switch {
	case standalone > 0 && known > 1:
		found.add(driver.Danger, "separate-servers", "", "give each of them the list of all servers (server.1=...), or name one server in the URL",
			"%d of %d servers run standalone and do not know the others: processes that connect to different ones hold the same lock", standalone, known)
	case standalone == 1:
		found.add(driver.Note, "standalone", "", "run three servers", "there is one server: while it is down no lock can be acquired, and its disk is the only copy of what it acknowledged")
	case voters > known:
		found.add(driver.Note, "member", "", "name all servers in the URL", "the ensemble has %d voting servers, and the client knows %d: it cannot continue with the others", voters, known)
	case voters > 0 && voters%2 == 0:
		found.add(driver.Note, "member", "", "use an odd number of servers", "%d voting servers survive as few failures as %d do", voters, voters-1)
	}
}

// judgeSettings compares the settings of a server with Options.
func (s *Store) judgeSettings(found *findings, r report) {
	tick := milliseconds(r.conf, "tickTime=")
	if tick == 0 {
		found.add(driver.Note, "unchecked", r.server, "add conf to 4lw.commands.whitelist, or compare tickTime with tick_time yourself",
			"it does not answer conf, so its tickTime and session timeouts are not known")
		return
	}
	if tick > s.opts.TickTime {
		found.add(driver.Danger, "tick-time", r.server, fmt.Sprintf("set tick_time=%v in the URL, or Options.TickTime", tick),
			"its tickTime is %v and the store was given %v: a holder may learn of the loss of its lease after another process has acquired the lock", tick, s.opts.TickTime)
	}
	longest, shortest := milliseconds(r.conf, "maxSessionTimeout="), milliseconds(r.conf, "minSessionTimeout=")
	if want := s.opts.MaxTTL + s.lag(s.opts.MaxTTL); longest > 0 && longest < want {
		found.add(driver.Warning, "session-timeout", r.server, fmt.Sprintf("set max_ttl=%v in the URL, or maxSessionTimeout=%d", longest*3/4, want.Milliseconds()),
			"its maxSessionTimeout is %v and a TTL of %v, the longest that is allowed, needs %v: such a lease is trusted for less than its TTL", longest, s.opts.MaxTTL, want)
	}
	if want := s.opts.MinTTL + s.lag(s.opts.MinTTL); shortest > want {
		found.add(driver.Note, "session-timeout", r.server, fmt.Sprintf("set min_ttl=%v in the URL, or minSessionTimeout=%d", shortest*3/4, want.Milliseconds()),
			"its minSessionTimeout is %v: the locks of a process that died with a TTL of %v are free that much later", shortest, s.opts.MinTTL)
	}
}

// refused reports whether a server does not execute a four-letter word.
func refused(answer string) bool {
	return answer == "" || strings.Contains(answer, "not in the whitelist")
}

// field returns what follows a name at the start of a line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// milliseconds returns a setting in milliseconds, 0 if the server does not report it.
func milliseconds(conf, name string) time.Duration {
	n, _ := strconv.ParseInt(field(conf, name), 10, 32)
	return time.Duration(n) * time.Millisecond
}

// versionOf returns the version in an answer to srvr, as 3.8.0.
func versionOf(srvr string) string {
	version, _, _ := strings.Cut(field(srvr, "Zookeeper version:"), ",")
	version, _, _ = strings.Cut(version, "-")
	return version
}

// supported reports whether a version is 3.5 or later. One that cannot be read is.
func supported(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 {
		return true
	}
	return major > 3 || major == 3 && minor >= 5
}

// votersOf counts the servers in an answer to conf that are not observers.
func votersOf(conf string) (n int) {
	for line := range strings.Lines(conf) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			n++
		}
	}
	return n
}
