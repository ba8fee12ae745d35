// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is a server that is one process. Only Linux reports what it uses.
type process int

// CPU implements Server.
func (p process) CPU(context.Context) (float64, error) { return processTime(int(p)) }

// Memory implements Server: what is in memory.
func (p process) Memory(context.Context) (float64, error) { return processMemory(int(p)) }

// uncounted is a server that does not count, or whose counts are not read.
type uncounted struct{}

// ResetStats implements Server.
func (uncounted) ResetStats(context.Context) error { return nil }

// Stats implements Server.
func (uncounted) Stats(context.Context) (Stats, error) { return nil, nil }

// processTime is the seconds that the threads of a process have run, as the scheduler
// counts them, in nanoseconds. A thread that
// has ended is not counted any more. Only Linux reports it.
func processTime(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	sum, read := 0.0, 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if ended(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		read++
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseFloat(ran, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q: %w", f, text, err)
		}
		sum += ns
	}
	if read == 0 {
		return 0, fmt.Errorf("schedstat of process %d: %w", pid, os.ErrNotExist)
	}
	return sum / 1e9, nil
}

// ended reports whether a file of a thread could not be read because the thread has ended
// since the names of the files were read.
func ended(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// familyTime is processTime of a process and its children.
func familyTime(pid int) (float64, error) {
	sum, err := processTime(pid)
	if err != nil {
		return 0, err
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if ended(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return 0, fmt.Errorf("%s: %q: %w", list, text, err)
			}
			if t, err := processTime(child); err == nil { // it may have ended
				sum += t
			}
		}
	}
	return sum, nil
}

// processMemory is the bytes of memory that a process has.
func processMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of process %d: %q", pid, text)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}
