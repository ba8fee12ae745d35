// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/lab/internal/rig"
)

// process is a running process.
type process struct {
	who string
	// stop ends the process, and returns why it ended badly. It may be called more than once.
	stop func() error
	// ended is closed when the process has ended. It is nil if that cannot be seen.
	ended <-chan struct{}
}

// start starts a process in a phase.
func (f *Fleet) start(phase Phase) *process {
	f.t.Helper()
	f.mu.Lock()
	f.started++
	r := &Record{f, fmt.Sprintf("%s-%d", phase, f.started)}
	f.mu.Unlock()
	if phase == Native && f.native != nil {
		stop := f.native(r)
		return &process{who: r.who, stop: sync.OnceValue(func() error { stop(); return nil })}
	}
	p, err := r.child(phase)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// child starts this program again.
func (r *Record) child(phase Phase) (*process, error) {
	task := r.fleet.task
	task.Phase = phase
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	c, err := rig.Start(context.Background(), rig.Command{Name: r.who, Env: []string{variable + "=" + string(text)}, Stderr: os.Stderr, Read: rig.Lines(r.line)})
	if err != nil {
		return nil, err
	}
	return &process{who: r.who, stop: func() error { return c.Finish(patience) }, ended: c.Over()}, nil
}

// line records what a child wrote.
func (r *Record) line(text string) {
	var from, until int64
	var name string
	if _, err := fmt.Sscanf(text, "hold %d %d %s", &from, &until, &name); err != nil {
		r.Failed(strings.TrimPrefix(text, "failed "))
		return
	}
	r.Hold(name, time.UnixMicro(from), time.UnixMicro(until))
}
