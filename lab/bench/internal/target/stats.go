// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Count is what a server counted for one command.
type Count struct {
	Calls int
	// Usec is the time spent executing it. For a script it includes the commands
	// the script calls. Reading the request and writing the reply are no part of it.
	Usec float64
}

// Stats is what a server counted, by command in lower case.
type Stats map[string]Count

// ParseStats reads the answer to INFO commandstats.
func ParseStats(text string) (Stats, error) {
	stats := Stats{}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_")
		if !ok {
			continue
		}
		name, fields, _ := strings.Cut(rest, ":")
		var c Count
		for _, field := range strings.Split(fields, ",") {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseFloat(value, 64)
			switch {
			case err != nil:
				return nil, fmt.Errorf("commandstats: %q: %w", strings.TrimSpace(line), err)
			case key == "calls":
				c.Calls = int(n)
			case key == "usec":
				c.Usec = n
			}
		}
		stats[strings.ToLower(name)] = c
	}
	return stats, nil
}

// scripts are the commands that run a script. A command that a script calls is counted
// too, in addition to the script.
var scripts = []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"}

// Sent adds up what clients sent: the scripts, and those commands that the caller
// says were sent outside of scripts.
//
// The server does not distinguish a command that a client sent from the same command
// called by a script: two EVALSHA with a GET and a DEL in each are counted as six.
// Only the two crossed the network, and their time includes that of the rest. So
// each candidate lists the commands that it sends outside of scripts
// (candidate.Candidate.Plain), and a test compares the list with what MONITOR shows.
//
// PING is never in that list: rueidis sends one a second on each connection that is
// silent, for every user. Pings returns how many there were.
func (s Stats) Sent(plain []string) Count {
	var sum Count
	for name, c := range s {
		if slices.Contains(scripts, name) || slices.Contains(plain, name) {
			sum.Calls += c.Calls
			sum.Usec += c.Usec
		}
	}
	return sum
}

// add adds what another server counted.
func (s Stats) add(other Stats) {
	for name, c := range other {
		s[name] = Count{s[name].Calls + c.Calls, s[name].Usec + c.Usec}
	}
}

// Pings is how often a client library asked whether its connection is well.
func (s Stats) Pings() int { return s["ping"].Calls }

// slowest is from when on the server notes a command as slow.
const slowest = time.Millisecond

// WatchSlow makes the server note slow commands from now on. longest returns how long the
// longest of them took, by the server's wall clock, and 0 if none was slow. The server comes first on the machine from now on: otherwise
// that includes time in which it did not run.
func (r *Redis) WatchSlow(ctx context.Context) (longest func(context.Context) (time.Duration, error), err error) {
	for setting, value := range map[string]int64{"slowlog-log-slower-than": slowest.Microseconds(), "slowlog-max-len": 1 << 16} {
		if err := r.admin.ConfigSet(ctx, setting, strconv.FormatInt(value, 10)).Err(); err != nil {
			return nil, err
		}
	}
	ComeFirst(r.PID())
	if err := r.admin.Do(ctx, "SLOWLOG", "RESET").Err(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (most time.Duration, err error) {
		logs, err := r.admin.SlowLogGet(ctx, -1).Result()
		for _, l := range logs {
			most = max(most, l.Duration)
		}
		return most, err
	}, nil
}

// Keys is how many keys the server has.
func (r *Redis) Keys(ctx context.Context) (int, error) {
	n, err := r.admin.DBSize(ctx).Result()
	return int(n), err
}

// growFor bounds AwaitGrown. A server grows a table of ten million keys in about six seconds.
const growFor = 15 * time.Second

// AwaitGrown lets the server finish growing its table of keys. While it does, each command moves some
// keys: that is the price of the keys that were written, and not of those that are held.
func (r *Redis) AwaitGrown(ctx context.Context) error {
	before, err := r.keyTable(ctx)
	if err != nil {
		return err
	}
	if err := r.admin.ConfigSet(ctx, "hz", "500").Err(); err != nil { // a millisecond for it in each cycle
		return err
	}
	for end := time.Now().Add(growFor); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		now, err := r.keyTable(ctx)
		if err != nil {
			return err
		}
		if now < before*9/10 { // the smaller table is gone
			break
		}
	}
	return r.admin.ConfigSet(ctx, "hz", "10").Err()
}

// keyTable is the bytes of the table of keys.
func (r *Redis) keyTable(ctx context.Context) (int64, error) {
	stats, err := r.admin.Do(ctx, "MEMORY", "STATS").Result()
	if err != nil {
		return 0, err
	}
	all, _ := stats.(map[any]any)
	keys, _ := all["db.0"].(map[any]any)
	size, ok := keys["overhead.hashtable.main"].(int64)
	if !ok {
		return 0, errors.New("the server does not report how large its table of keys is")
	}
	return size, nil
}
