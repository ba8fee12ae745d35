// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
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
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var failure error // read when ended is closed
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.line(lines.Text())
		}
		failure = cmd.Wait()
	}()
	stop := sync.OnceValue(func() error {
		_ = in.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		<-ended
		return failure
	})
	return &process{who: r.who, stop: stop, ended: ended}, nil
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
