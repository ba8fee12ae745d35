// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// steps are how far ahead the wall clocks of all clients are set, one after the other. Every other process gets the
// opposite.
var steps = []time.Duration{time.Hour, -time.Hour, 0}

// step sets the wall clocks of all clients, an hour ahead, an hour back, and right again. The monotonic clock goes on,
// as it does when a machine is set right by NTP.
func step(ctx context.Context, s size) (*Result, error) {
	dir, err := os.MkdirTemp("", "events-step")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	memberProgram, err = buildStepped(ctx, dir)
	if err != nil {
		return nil, err
	}
	server, err := servers.Redis.Start("--maxclients", "20000")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	f, err := launch(Config{Addr: server.Addr}, s)
	if err != nil {
		return nil, err
	}
	defer f.kill()
	if _, err := f.send(Order{Op: "hold", Name: "kept", Leases: s.Leases}); err != nil {
		return nil, err
	}
	time.Sleep(s.TTL)
	r := &Result{Began: time.Now().UTC().Truncate(time.Second)}
	l := watch(server)
	began := time.Now()
	for i, by := range steps {
		var orders []any
		for p := range f {
			orders = append(orders, Order{Op: "step", Step: by * time.Duration(1-2*(p%2))})
		}
		replies, err := f.sendEach(orders)
		if err == nil {
			err = stepped(replies, orders)
		}
		if err != nil {
			return nil, err
		}
		if _, err := f.send(Order{Op: "hold", Name: fmt.Sprint("step ", i), Leases: 1}); err != nil {
			return nil, err
		}
		r.Calm = max(r.Calm, time.Since(began)-time.Duration(i)*s.TTL)
		time.Sleep(time.Until(began.Add(time.Duration(i+1) * s.TTL)))
	}
	replies, err := f.send(Order{Op: "check"})
	if err != nil {
		return nil, err
	}
	t, h := total(replies)
	r.PeakCPU, r.CPU, r.Connections = l.end()
	r.Lost, r.Why = max(t.Lost, int64(s.Sessions*(s.Leases+len(steps)))-t.Held), t.Why
	r.Arrivals = sum(began, time.Duration(len(steps))*s.TTL, h...)
	r.note("renewals that failed", float64(t.FailedRenewal))
	return r, nil
}

// stepped returns an error unless the clocks of all processes are as they were set.
func stepped(replies []Reply, orders []any) error {
	for i, r := range replies {
		ahead := time.Until(time.UnixMilli(r.Clock))
		if off := ahead - orders[i].(Order).Step; off.Abs() > time.Minute {
			return fmt.Errorf("the clock of a process is %v ahead, and was to be %v", ahead, orders[i].(Order).Step)
		}
	}
	return nil
}

// readsClock is where package time reads the clocks, and isAhead adds a number of seconds to the wall clock.
const (
	readsClock = "sec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	isAhead    = "sec, nsec, mono := runtimeNow()\n\tsec += ahead\n\tif mono == 0 {"
	setsAhead  = "\nvar ahead int64\n\n// SetAhead sets the wall clock of the process so many seconds ahead.\nfunc SetAhead(seconds int64) { ahead = seconds }\n"
)

// buildStepped builds this program with a package time whose wall clock can be set: libfaketime does not reach programs in Go.
func buildStepped(ctx context.Context, dir string) (program string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), readsClock) {
		return "", errors.New("package time of this version of Go reads its clock elsewhere; change readsClock in event_step.go")
	}
	changed := filepath.Join(dir, "time.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	err = errors.Join(os.WriteFile(changed, []byte(strings.Replace(string(text), readsClock, isAhead, 1)+setsAhead), 0o644),
		os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644))
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "load")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-tags", "stepped", "-o", program, "github.com/fencelock/fencelock/lab/load")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}
