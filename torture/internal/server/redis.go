// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/redis/go-redis/v9"
)

// Redis is one redis-server, running or not.
type Redis struct{ *Process }

// StartRedis starts a server that writes every command to its log of commands
// (fsync each second), with more arguments if given.
func StartRedis(w fault.Wants, args ...string) (*Redis, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	dir, addr, port, err := place("redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{&Process{Addr: addr, Port: port, dir: dir, sign: "Ready to accept connections"}}
	if w.Disk {
		if err := r.small(); err != nil {
			r.Stop()
			return nil, err
		}
	}
	if w.Clock {
		if r.clock, err = ownClock(); err != nil {
			r.Stop()
			return nil, err
		}
	}
	r.command = func() *exec.Cmd {
		cmd := exec.Command(binary, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--protected-mode", "no"}, args...)...)
		cmd.Env = r.clock.env()
		return cmd
	}
	if err := r.Start(); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

func redisBinary() (string, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("redis-server is %w; on Debian: apt-get install redis-server", ErrMissing)
	}
	return binary, nil
}

// Wipe implements Wiper: the data goes, what a node knows of its cluster stays.
func (r *Redis) Wipe() error {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if e.Name() != "nodes.conf" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, e.Name())))
		}
	}
	return err
}

// Snapshot copies the data of a server, running or not. The function it returns
// puts the copy in the place of the data; the server must not run then.
func (r *Redis) Snapshot() (restore func() error, err error) {
	copied, err := os.MkdirTemp("", "torture-copy")
	if err != nil {
		return nil, err
	}
	const data = "appendonlydir"
	if err := os.CopyFS(filepath.Join(copied, data), os.DirFS(filepath.Join(r.dir, data))); err != nil {
		return nil, errors.Join(err, os.RemoveAll(copied))
	}
	return func() error {
		return errors.Join(r.Wipe(), os.CopyFS(filepath.Join(r.dir, data), os.DirFS(filepath.Join(copied, data))), os.RemoveAll(copied))
	}, nil
}

// Now returns the time of day of the server.
func (r *Redis) Now(ctx context.Context) (time.Time, error) {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true})
	defer c.Close()
	return c.Time(ctx).Result()
}

// Refuses tells whether the server has no room for a write, in memory or on its disk. A
// script that may write is refused then before it begins, whichever slots the server
// has; this one writes nothing.
func (r *Redis) Refuses(ctx context.Context) (bool, error) {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	err := c.Eval(ctx, "#!lua\nreturn 1", nil).Err()
	if err == nil {
		return false, nil
	}
	return strings.HasPrefix(err.Error(), "OOM ") || strings.HasPrefix(err.Error(), "MISCONF "), err
}

// FillDisk is that of Process, and fills the last page of the log of commands, which
// would have room for some more, by a library of functions that is mostly a remark.
// Unlike a key it belongs to no slot.
func (r *Redis) FillDisk() (empty func() error, err error) {
	if empty, err = r.Process.FillDisk(); err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	code := "#!lua name=torture\n--" + strings.Repeat("x", 8<<10) + "\nredis.register_function('torture', function() return 1 end)"
	if err := c.FunctionLoadReplace(context.Background(), code).Err(); err != nil && !strings.HasPrefix(err.Error(), "MISCONF ") {
		return nil, errors.Join(err, empty())
	}
	return empty, nil
}

// cutPush ends the connections that wait for messages, but for those of sentinels. A
// sentinel that has none counts the master as silent: cut a few times in a row it
// would have another one take over.
func cutPush(ctx context.Context, c *redis.Client) error {
	list, err := c.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if id, ok := idOf(line); ok {
			if err := c.ClientKillByFilter(ctx, "ID", id).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// idOf reads the number of a connection from a line of CLIENT LIST; not ok for one of
// a sentinel.
func idOf(line string) (id string, ok bool) {
	for _, f := range strings.Fields(line) {
		if strings.HasPrefix(f, "name=sentinel-") {
			return "", false
		}
		if n, found := strings.CutPrefix(f, "id="); found {
			id = n
		}
	}
	return id, id != ""
}

// Do implements Commander.
func (r *Redis) Do(ctx context.Context, v fault.Verb) error {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true})
	defer c.Close()
	switch v {
	case fault.Flush:
		return c.FlushAll(ctx).Err()
	case fault.FlushScripts:
		return c.ScriptFlush(ctx).Err()
	case fault.CutPush:
		return cutPush(ctx, c)
	case fault.Fill:
		return c.ConfigSet(ctx, "maxmemory", "1").Err()
	case fault.Drain:
		return c.ConfigSet(ctx, "maxmemory", "0").Err()
	}
	return fmt.Errorf("a Redis server cannot be harmed by %q", v)
}
