// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/bench/internal/child"
	"github.com/redis/go-redis/v9"
)

// Redis is a running redis-server.
type Redis struct {
	addr  string
	cmd   *exec.Cmd
	dir   string
	admin *redis.Client
}

// StartRedis starts a server without persistence. The caller stops it.
func StartRedis(ctx context.Context) (Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed; on Debian: apt-get install redis-server")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r := &Redis{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if r.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	r.cmd = exec.Command(path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", r.dir,
		"--save", "", "--appendonly", "no", "--maxclients", "20000")
	child.EndWithParent(r.cmd)
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.dir))
	}
	r.admin = redis.NewClient(&redis.Options{Addr: r.addr, PoolSize: 1, ContextTimeoutEnabled: true, DisableIdentity: true})
	ready := make(chan error, 2)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() { // to the end: a full pipe would stop the server
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				ready <- nil
			}
		}
		ready <- errors.New("it ended before it was ready")
	}()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(20 * time.Second):
		err = errors.New("it was not ready within 20 s")
	}
	if err != nil {
		r.Stop()
		return nil, fmt.Errorf("redis-server on %s: %w", r.addr, err)
	}
	return r, nil
}

// Addr implements Server.
func (r *Redis) Addr() string { return r.addr }

// Version implements Server.
func (r *Redis) Version(ctx context.Context) (string, error) {
	v, err := r.text(ctx, "server", "redis_version")
	return "Redis " + v, err
}

// Stop implements Server.
func (r *Redis) Stop() {
	_ = r.admin.Close()
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	_ = os.RemoveAll(r.dir)
}

// ResetStats implements Server.
func (r *Redis) ResetStats(ctx context.Context) error { return r.admin.ConfigResetStat(ctx).Err() }

// Stats implements Server.
func (r *Redis) Stats(ctx context.Context) (Stats, error) {
	text, err := r.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	return ParseStats(text)
}

// number returns a number of INFO.
func (r *Redis) number(ctx context.Context, section, field string) (float64, error) {
	text, err := r.text(ctx, section, field)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// text returns a value of INFO.
func (r *Redis) text(ctx context.Context, section, field string) (string, error) {
	text, err := r.admin.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("INFO %s of %s has no %s", section, r.addr, field)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Memory implements Server.
func (r *Redis) Memory(ctx context.Context) (float64, error) {
	return r.number(ctx, "memory", "used_memory")
}

// CPU implements Server.
func (r *Redis) CPU(ctx context.Context) (float64, error) {
	user, err := r.number(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	system, err := r.number(ctx, "cpu", "used_cpu_sys")
	return user + system, err
}
