// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processCPU is the seconds of processor time that a process has used.
func processCPU(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program is in brackets, whatever it has; then come a state
	// and numbers, of which the twelfth and thirteenth are times in 1/100 s.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat of process %d: %q", pid, text)
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(err1, err2)
}

// processTime is the seconds that the threads of a process have run, as the scheduler
// counts them: in nanoseconds, where processCPU has hundredths of a second. A thread that
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
