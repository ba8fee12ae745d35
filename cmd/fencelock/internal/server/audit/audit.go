// SPDX-License-Identifier: Apache-2.0

// Package audit writes who broke which lock and which calls were denied: one JSON object
// a line in a file, and the same to a logger.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
)

// Kind is what an entry is about.
type Kind string

// The kinds. A break that was allowed has two entries: Asked before the store is called, so
// that no lock is broken without a trail, and Broken or Failed after that.
const (
	Asked  Kind = "asked"
	Broken Kind = "broken"
	Failed Kind = "failed"
	Denied Kind = "denied"
)

// Entry is a line.
type Entry struct {
	Time   time.Time       `json:"time"`
	Kind   Kind            `json:"event"`
	Who    string          `json:"who,omitempty"`
	Remote string          `json:"remote"`
	Call   string          `json:"call"`
	Lock   string          `json:"lock,omitempty"`
	Token  fencelock.Token `json:"token,omitempty,string"`
	Fence  fencelock.Token `json:"fence,omitempty,string"`
	Holder string          `json:"holder,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Error  string          `json:"error,omitempty"`
	Status int             `json:"status,omitempty"`
	// More counts calls that were denied to the same caller before this one and have no line: calls above the
	// rate limit must not fill the disk.
	More int `json:"more,omitempty"`
}

// Log is where entries go. The zero Log has no file.
type Log struct {
	Logger *slog.Logger
	path   string
	mu     sync.Mutex
	file   *os.File
	torn   bool // the file ends with a part of a line
}

// Open opens a log that appends to a file, or one without a file if path is empty.
func Open(path string, logger *slog.Logger) (*Log, error) {
	l := &Log{Logger: logger, path: path}
	if path == "" {
		return l, nil
	}
	return l, l.reopen()
}

func (l *Log) reopen() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.torn = f, false
	return nil
}

// Write appends an entry. If it returns an error the entry may be missing, and what it is
// about must not be done.
func (l *Log) Write(e Entry) error {
	if l.Logger != nil {
		level := slog.LevelWarn
		if e.Kind == Denied {
			level = slog.LevelInfo
		}
		l.Logger.LogAttrs(context.Background(), level, "audit", e.attrs()...)
	}
	if l.path == "" {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.rotated(); err != nil {
		return err
	}
	if err := l.appendLocked(l.file, line); err != nil {
		return err
	}
	if e.Kind == Denied {
		return nil
	}
	return l.file.Sync()
}

// appendLocked writes a line. A part of a line that a full disk left is ended first, so that it
// spoils no other. l.mu must be held.
func (l *Log) appendLocked(w io.Writer, line []byte) error {
	text := append(line, '\n')
	if l.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := w.Write(text)
	if err == nil {
		l.torn = false
	} else if n > 0 {
		l.torn = true
	}
	return err
}

// rotated opens the file again if another program moved it away.
func (l *Log) rotated() error {
	now, err := os.Stat(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	opened, statErr := l.file.Stat()
	if err == nil && statErr == nil && os.SameFile(now, opened) {
		return nil
	}
	return l.reopen()
}

func (e *Entry) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("event", string(e.Kind)), slog.String("remote", e.Remote), slog.String("call", e.Call)}
	for _, a := range []struct{ key, value string }{{"who", e.Who}, {"lock", e.Lock}, {"holder", e.Holder}, {"reason", e.Reason}, {"error", e.Error}} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if e.Token != 0 {
		attrs = append(attrs, slog.String("token", e.Token.String()))
	}
	if e.More > 0 {
		attrs = append(attrs, slog.Int("more", e.More))
	}
	return attrs
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
