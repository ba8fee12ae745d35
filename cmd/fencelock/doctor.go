// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/spf13/cobra"
)

// diagnosis is what doctor found.
type diagnosis struct {
	Engine     string               `json:"engine"`
	Program    string               `json:"program"`
	LockMS     float64              `json:"lock_ms"` // to take a lock and give it back
	Guarantees fencelock.Guarantees `json:"guarantees"`
	Findings   []finding            `json:"findings"`
	OK         bool                 `json:"ok"`
}

// severities from harmless to bad.
var severities = []string{"note", "warning", "danger"}

func (a *app) doctorCommand() *cobra.Command {
	var failOn string
	var correctness bool
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this store promises, what is unsafe about it, and what to change",
		Long: `Say what this store with these settings promises, and look for what makes it unsafe:
settings of the server, its version, its clock, missing permissions. Each finding has
a severity, the reason, and the setting to change.

It takes one lock of its own and gives it back, to see that locks work; it changes
nothing else.

The exit code is 0 if all is well, 1 if a finding is as bad as --fail-on.`,
		Example: `  fencelock doctor
  fencelock doctor --correctness --fail-on warning || exit 1   # before a deployment`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(severities, failOn) {
				return usage("--fail-on %s: it is one of %s", failOn, strings.Join(severities, ", "))
			}
			a.quiet = true // what the store would warn of is in the findings
			d, err := a.diagnose(cmd.Context(), ttl, correctness)
			if err != nil {
				return err
			}
			d.OK = !slices.ContainsFunc(d.Findings, func(f finding) bool {
				return slices.Index(severities, f.Severity) >= slices.Index(severities, failOn)
			})
			if a.format == "json" {
				err = printJSON(a.out, d)
			} else {
				err = writeDiagnosis(a.out, d)
			}
			if err == nil && !d.OK {
				err = quiet(exitFailed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&failOn, "fail-on", "danger", "how bad a finding must be for exit code 1: note, warning, danger")
	cmd.Flags().BoolVar(&correctness, "correctness", false, "doing the work twice would corrupt something: look for that, too")
	cmd.Flags().DurationVar(&ttl, "ttl", fencelock.DefaultTTL, "the TTL that will be used")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

func (a *app) diagnose(ctx context.Context, ttl time.Duration, correctness bool) (*diagnosis, error) {
	conn, err := a.connect(ctx, &fencelock.Options{TTL: ttl, CallTimeout: a.timeout})
	if errors.Is(err, driver.ErrRefused) {
		return &diagnosis{Program: version(), Findings: []finding{{Severity: "danger", Code: "refused", Reason: err.Error()}}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer a.close(conn)
	d := &diagnosis{Engine: conn.Caps().Engine, Program: version(), Guarantees: conn.client.Guarantees(), Findings: []finding{}}
	if conn.check != nil {
		call, cancel := context.WithTimeout(ctx, 4*a.timeout)
		found, err := conn.check(call)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fencelock.ErrUnavailable, err)
		}
		d.Findings = append(d.Findings, found...)
	} else {
		d.Findings = append(d.Findings, finding{Severity: "note", Code: "unchecked", Reason: "this store cannot look at its server"})
	}
	if correctness {
		d.Findings = append(d.Findings, unfit(d.Guarantees, conn.graceFix)...)
	}
	took, err := a.tryLock(ctx, conn.client)
	var busy *fencelock.BusyError
	switch {
	case err == nil:
	case exitCode(err) == exitUnavailable:
		return nil, err
	case errors.As(err, &busy) && busy.Grace:
		d.Findings = append(d.Findings, finding{Severity: "note", Code: "grace",
			Reason: "the store has a new memory and grants nothing new for " + short(busy.RetryAfter) + "; so locks were not tried"})
	default:
		d.Findings = append(d.Findings, finding{Severity: "danger", Code: "lock", Reason: strings.ReplaceAll(err.Error(), "fencelock: ", "")})
	}
	d.LockMS = float64(took.Microseconds()) / 1000
	return d, nil
}

// unfit says what is missing where doing the work twice would corrupt something.
func unfit(g fencelock.Guarantees, graceFix string) []finding {
	var found []finding
	if g.Fencing != fencelock.Strict {
		found = append(found, finding{Severity: "danger", Code: "fencing", Reason: "tokens are not strict: they are " + g.Fencing.String(), Fix: "use another store"})
	}
	if !g.SurvivesCrash {
		fix := graceFix
		if fix == "" {
			fix = "use another store, or check the token wherever something is written"
		}
		found = append(found, finding{Severity: "danger", Code: "forgets",
			Reason: "a crash or failover of the server may forget who holds a lock, and another may get it in time", Fix: fix})
	}
	return found
}

// tryLock takes a lock that is nobody else's, twice: the first opens the session.
func (a *app) tryLock(ctx context.Context, c *fencelock.Client) (time.Duration, error) {
	var id [8]byte
	rand.Read(id[:])
	name := "fencelock-doctor/" + hex.EncodeToString(id[:])
	var took time.Duration
	for range 2 {
		began := time.Now()
		l, err := c.Mutex(name, fencelock.Reason("fencelock doctor")).TryLock(ctx)
		if err == nil {
			err = l.Unlock(ctx)
		}
		if err != nil {
			return 0, err
		}
		took = time.Since(began)
	}
	return took, nil
}

// version is that of the program, as far as it was built with one.
func version() string {
	v := "unreleased"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return fmt.Sprintf("fencelock %s, %s, %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// writeDiagnosis is the view for people.
func writeDiagnosis(w io.Writer, d *diagnosis) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", d.Program)
	if d.LockMS > 0 {
		fmt.Fprintf(&b, "a lock was taken and given back in %.1f ms\n", d.LockMS)
	}
	if d.Engine != "" {
		fmt.Fprintf(&b, "\nWhat is promised on %s\n", d.Engine)
		for line := range strings.Lines(d.Guarantees.String()) {
			b.WriteString("  - " + line)
		}
	}
	b.WriteString("\nWhat was found\n")
	if len(d.Findings) == 0 {
		b.WriteString("  nothing to worry about\n")
	}
	findings := slices.Clone(d.Findings)
	slices.SortStableFunc(findings, func(x, y finding) int {
		return slices.Index(severities, y.Severity) - slices.Index(severities, x.Severity)
	})
	for _, f := range findings {
		fmt.Fprintf(&b, "  %-8s %s", strings.ToUpper(f.Severity), f.Code)
		if f.Node != "" {
			fmt.Fprintf(&b, " (%s)", f.Node)
		}
		fmt.Fprintf(&b, "\n           %s\n", f.Reason)
		if f.Fix != "" {
			fmt.Fprintf(&b, "           change: %s\n", f.Fix)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
