// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"os"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestRedis: each flavor keeps its address, loses its data when it is killed, keeps them
// when it is rebooted, and answers again after a pause.
func TestRedis(t *testing.T) {
	for _, f := range Flavors {
		t.Run(string(f), func(t *testing.T) {
			s := Test(t, func() (*RedisServer, error) { return f.Start("--maxclients", "100") })
			must := func(err error) {
				t.Helper()
				must.OK(t, err)
			}
			has := func(want int) {
				t.Helper()
				if n, err := s.Do("DBSIZE").Int(); err != nil || n != want {
					t.Errorf("%d keys, %v, want %d", n, err, want)
				}
			}
			if got := s.Info("clients", "maxclients"); got != "100" {
				t.Errorf("maxclients is %q", got)
			}
			must(s.Do("SET", "a", "1").Err())
			must(s.Reboot())
			has(1)
			pid := s.PID()
			must(s.Restart())
			has(0)
			if s.PID() == pid {
				t.Error("the process is the same after a restart")
			}
			resume := s.Pause()
			if !stopped(s.PID()) {
				t.Error("it does not stand still")
			}
			resume()
			has(0)
			s.Kill()
			if err := s.Do("PING").Err(); err == nil || s.PID() != 0 {
				t.Errorf("got %v from a killed server, process %d", err, s.PID())
			}
			s.Stop()
			if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}

// TestRedisDoesNotStart: the error has what the server printed.
func TestRedisDoesNotStart(t *testing.T) {
	if err := Redis.Need(); err != nil {
		t.Skip(err)
	}
	if s, err := Redis.Start("--maxclients", "many"); err == nil {
		s.Stop()
		t.Error("it started with a setting that is not a number")
	}
}

// TestClock: the clock of a server can be set while it runs.
func TestClock(t *testing.T) {
	s := Test(t, func() (*RedisServer, error) { return Redis.StartClocked() })
	ahead := func() time.Duration {
		t.Helper()
		now, err := s.Do("EVAL", "return tonumber(redis.call('TIME')[1])", 0).Int()
		must.OK(t, err)
		return time.Until(time.Unix(int64(now), 0)).Round(time.Minute)
	}
	for _, d := range []time.Duration{0, time.Hour, -2 * time.Hour} {
		must.OK(t, s.Clock().Set(d))
		if got := ahead(); got != d {
			t.Errorf("the clock is %v ahead, want %v", got, d)
		}
	}
	if err := s.Clock().Move(time.Hour); err != nil || ahead() != -time.Hour {
		t.Errorf("moved: %v, %v", ahead(), err)
	}
}
