// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// Gate decides whether servers are fit to keep locks, before the first session is opened. When they are
// asked, and again if they did not answer, is up to the store.
type Gate struct {
	// Package begins errors, Engine is what log lines name.
	Package, Engine string
	// Accept has the codes of findings that the caller accepts, and Never those that are refused even
	// then, because no lock could be acquired.
	Accept, Never []string
	// Passing has the codes of dangers that are reported and not refused.
	Passing []string
	// Warn is called with each finding that is not refused, once. Default: a line to log/slog.
	Warn func(driver.Finding)

	mu       sync.Mutex
	reported map[string]bool
}

// Judge reports what is wrong with the servers. It returns an error that wraps driver.ErrRefused if locks
// are unsafe there.
func (g *Gate) Judge(findings []driver.Finding) error {
	var refused, codes []string
	never := false
	for _, f := range findings {
		fatal := slices.Contains(g.Never, f.Code)
		switch {
		case fatal, f.Severity == driver.Danger && !slices.Contains(g.Accept, f.Code) && !slices.Contains(g.Passing, f.Code):
			never = never || fatal
			refused = append(refused, f.String())
			if !slices.Contains(codes, f.Code) {
				codes = append(codes, f.Code)
			}
		case !slices.Contains(g.Accept, f.Code):
			g.report(f)
		}
	}
	switch text := strings.Join(refused, "; "); {
	case text == "":
		return nil
	case never:
		return fmt.Errorf("%s: the server is not safe for locks: %s: %w", g.Package, text, driver.ErrRefused)
	default:
		return fmt.Errorf("%s: the server is not safe for locks: %s; to proceed anyway add accept=%s to the URL (Options.Accept): %w",
			g.Package, text, strings.Join(codes, ","), driver.ErrRefused)
	}
}

// report reports a finding, once.
func (g *Gate) report(f driver.Finding) {
	g.mu.Lock()
	known := g.reported[f.Node+" "+f.Code]
	if g.reported == nil {
		g.reported = map[string]bool{}
	}
	g.reported[f.Node+" "+f.Code] = true
	g.mu.Unlock()
	switch {
	case known:
	case g.Warn != nil:
		g.Warn(f)
	default:
		level := slog.LevelWarn
		if f.Severity == driver.Note {
			level = slog.LevelInfo
		}
		slog.Default().Log(context.Background(), level, "fencelock: "+f.Reason, "engine", g.Engine, "server", f.Node, "code", f.Code, "fix", f.Fix)
	}
}

// Accepts returns an error if Options.Accept has a code that is not among the codes of a
// store's findings: a misspelled code would accept nothing.
func Accepts(accept, codes []string) error {
	for _, code := range accept {
		if slices.Contains(codes, code) {
			continue
		}
		if meant := driver.Closest(code, codes...); meant != "" {
			return fmt.Errorf("Options.Accept has %q, which is not the code of a finding; did you mean %s?", code, meant)
		}
		return fmt.Errorf("Options.Accept has %q, which is not the code of a finding; there are %s", code, strings.Join(codes, ", "))
	}
	return nil
}
