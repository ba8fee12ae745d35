// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
)

// diagnosis is what doctor found.
type diagnosis struct {
	Server     string               `json:"server"`
	Program    string               `json:"program"`
	LockMS     float64              `json:"lock_ms"` // to take a lock and give it back
	Guarantees *lockview.Guarantees `json:"guarantees,omitempty"`
	Findings   []driver.Finding     `json:"findings"`
	Contract   []clauseCase         `json:"contract,omitempty"` // of --deep
	OK         bool                 `json:"ok"`

	promises    fencelock.Guarantees
	unavailable error // the store did not answer
}

// checkup is what doctor is asked to check.
type checkup struct {
	ttl         time.Duration
	failOn      string
	correctness bool
	deep        bool
	deepTTL     time.Duration
	only        []string
}

func (a *app) doctorCommand() *cobra.Command {
	var c checkup
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Report what this store promises, what is unsafe about it, and what to change",
		Long: `Report what this store with these settings promises, and check what makes it unsafe:
settings of the server, its version, its clock, missing permissions. Each finding has
a severity, the reason, and the setting to change.

It acquires and releases a lock that no other client uses, to see that locks work. So it
asks for what its URL asks for, as a program would: with grace=true or a longer max_ttl
the namespace has that from then on, and one that no program has used is set up (not with
several buckets on Redis, whose number cannot be changed). Give it the URL of the program
with all its parameters. It changes nothing else.

A note about data-loss is normal on a server that keeps its data in memory;
--correctness makes it a danger.

With --deep it also runs the executable contract of stores (docs/spec.md) against the
store as it is deployed, with its settings, its proxies and its version. That uses a
separate namespace (` + deepNamespace + `, or --namespace) and short sessions, leaves no
lock behind, and takes a minute or two, most of it waiting for sessions to end. Cases that
would have to kill, wipe or cut off the server are skipped and reported as such.

The exit code is 0 if all is well, 1 if a finding is as bad as --fail-on or a clause is
violated, 69 if the store does not answer.`,
		Example: `  fencelock doctor
  fencelock doctor --correctness --fail-on warning || exit 1   # before a deployment
  fencelock doctor --deep --only S,T4      # the clauses on sessions, and one on tokens`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !c.deep && (cmd.Flags().Changed("only") || cmd.Flags().Changed("deep-ttl")) {
				return usage("--only and --deep-ttl need --deep")
			}
			return exactly(0, "no arguments")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), &c) },
	}
	cmd.Flags().StringVar(&c.failOn, "fail-on", "danger", "how bad a finding must be for exit code 1: note, warning, danger")
	cmd.Flags().BoolVar(&c.correctness, "correctness", false, "doing the work twice would corrupt data: check the store for that, too")
	cmd.Flags().DurationVar(&c.ttl, "ttl", fencelock.DefaultTTL, "the TTL that will be used")
	cmd.Flags().BoolVar(&c.deep, "deep", false, "check clause by clause that the store keeps its contract")
	cmd.Flags().DurationVar(&c.deepTTL, "deep-ttl", 2*time.Second, "with --deep, TTL of the sessions that end during a case; longer for a slow store")
	cmd.Flags().StringSliceVar(&c.only, "only", nil, "with --deep, only clauses whose number begins so")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

// doctor checks a store, and prints what it found.
func (a *app) doctor(ctx context.Context, c *checkup) error {
	var least driver.Severity
	if err := least.UnmarshalText([]byte(c.failOn)); err != nil {
		return usage("--fail-on %s: it is one of note, warning, danger", c.failOn)
	}
	a.quiet = true // what the store would warn of is in the findings
	d, err := a.diagnose(ctx, c.ttl, c.correctness)
	if err != nil {
		return err
	}
	d.OK = !slices.ContainsFunc(d.Findings, func(f driver.Finding) bool { return f.Severity >= least })
	if a.format != "json" {
		err = writeDiagnosis(a.out, d, terminalWidth(a.out))
	}
	if err == nil && c.deep && d.unavailable == nil {
		d.Contract, err = a.checkContract(ctx, c.deepTTL, c.only)
		d.OK = d.OK && !slices.ContainsFunc(d.Contract, func(c clauseCase) bool { return c.Result == "failed" })
	}
	if err == nil && a.format == "json" {
		err = printJSON(a.out, d)
	}
	switch {
	case err != nil:
		return err
	case d.unavailable != nil:
		return exitSilently(exitUnavailable)
	case !d.OK:
		return exitSilently(exitFailed)
	}
	return nil
}

func (a *app) diagnose(ctx context.Context, ttl time.Duration, correctness bool) (*diagnosis, error) {
	conn, err := a.connect(ctx, &fencelock.Options{TTL: ttl})
	if errors.Is(err, driver.ErrRefused) {
		// The findings say all that is wrong, not only what the store is refused for.
		if read, failed := a.connectTo(ctx, a.openToRead, &fencelock.Options{TTL: ttl}); failed == nil {
			conn, err = read, nil
		}
	}
	if errors.Is(err, driver.ErrRefused) {
		return &diagnosis{Program: version(), Findings: []driver.Finding{{Severity: driver.Danger, Code: "refused", Reason: text.Plain(err.Error())}}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer a.close(conn)
	d := &diagnosis{Server: conn.Caps().Engine, Program: version(),
		Guarantees: lockview.GuaranteesOf(conn.client.Guarantees()), promises: conn.client.Guarantees()}
	call, cancel := context.WithTimeout(ctx, 4*a.timeout)
	d.Findings = lockview.Findings(call, conn.OpenedStore, d.promises, conn.graceFix, correctness)
	cancel()
	var took time.Duration
	if !slices.ContainsFunc(d.Findings, func(f driver.Finding) bool { return f.Code == "unused" }) {
		took, err = a.tryLock(ctx, conn.client)
	}
	var grace *fencelock.GraceError
	switch {
	case err == nil:
	case exitCode(err) == exitUnavailable:
		d.unavailable = err // the findings may say why
		d.Findings = append(d.Findings, driver.Finding{Severity: driver.Danger, Code: "lock", Reason: text.Plain(err.Error())})
	case errors.As(err, &grace):
		d.Findings = append(d.Findings, driver.Finding{Severity: driver.Note, Code: "grace",
			Reason: lockview.GraceLine(grace.RetryAfter) + ", so locks were not tried"})
	case !explained(d.Findings, err):
		d.Findings = append(d.Findings, driver.Finding{Severity: driver.Danger, Code: "lock", Reason: text.Plain(err.Error())})
	}
	lockview.PlainFindings(d.Findings)
	d.LockMS = float64(took.Microseconds()) / 1000
	return d, nil
}

// explained reports whether a danger that was found is the reason of an error.
func explained(findings []driver.Finding, err error) bool {
	return slices.ContainsFunc(findings, func(f driver.Finding) bool {
		return f.Severity == driver.Danger && f.Reason != "" && strings.Contains(err.Error(), f.Reason)
	})
}

// tryLock acquires a lock that no other client uses, twice: the first opens the session.
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

// writeDiagnosis is the view for people, on a terminal of a width or on none.
func writeDiagnosis(w io.Writer, d *diagnosis, width int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", d.Program)
	if d.LockMS > 0 {
		fmt.Fprintf(&b, "acquired and released a lock in %.1f ms\n", d.LockMS)
	}
	if d.Server != "" {
		fmt.Fprintf(&b, "\nGuarantees on %s\n", d.Server)
		for line := range strings.Lines(d.promises.String()) {
			b.WriteString(wrap("  - ", text.Plain(strings.TrimSpace(line)), 4, width))
		}
	}
	b.WriteString("\nWhat was found\n")
	if len(d.Findings) == 0 {
		b.WriteString("  nothing to worry about\n")
	}
	findings := slices.Clone(d.Findings)
	slices.SortStableFunc(findings, func(x, y driver.Finding) int { return cmp.Compare(y.Severity, x.Severity) })
	for _, f := range findings {
		fmt.Fprintf(&b, "  %-8s %s", strings.ToUpper(f.Severity.String()), f.Code)
		if f.Node != "" {
			fmt.Fprintf(&b, " (%s)", f.Node)
		}
		const indent = 11
		b.WriteString("\n" + wrap(strings.Repeat(" ", indent), text.Clean(f.Reason), indent, width))
		if f.Fix != "" {
			b.WriteString(wrap(strings.Repeat(" ", indent)+"change: ", text.Clean(f.Fix), indent+8, width))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// deepNamespace is used unless another is chosen: a check must not meet the
// locks of an application.
const deepNamespace = "fencelock-doctor"

// clauseCase is what came of a case of the contract.
type clauseCase struct {
	Case    string   `json:"case"`
	Rule    string   `json:"rule"`
	Result  string   `json:"result"` // passed, failed, skipped
	Why     []string `json:"why,omitempty"`
	Seconds float64  `json:"seconds"`
}

// checkContract runs the store clauses against the store as it is deployed.
func (a *app) checkContract(parent context.Context, ttl time.Duration, only []string) ([]clauseCase, error) {
	ctx, stop := untilSignal(parent)
	defer stop()
	url, err := a.urlOfStore()
	if err != nil {
		return nil, err
	}
	ns := cmp.Or(a.ns, deepNamespace)
	var stores []*opened
	defer func() {
		for _, s := range stores {
			_ = s.Close()
		}
	}()
	h := &drivertest.Harness{TTL: ttl, Open: func() (driver.Store, error) {
		s, err := a.open(ctx, url, ns)
		if err != nil {
			return nil, err
		}
		stores = append(stores, s)
		return s, nil
	}}
	if err := a.usable(ctx, h); err != nil {
		return nil, err // once, with its exit code, and not as so many violated clauses
	}
	table := a.format != "json"
	if table {
		fmt.Fprintf(a.out, "\nStore clauses; most take a few TTLs (%v), all of them a minute or two\n", ttl)
	}
	cases, err := a.runCases(ctx, h, only)
	if err == nil && table {
		counts := map[string]int{}
		for _, c := range cases {
			counts[c.Result]++
		}
		fmt.Fprintf(a.out, "%d cases: %d passed, %d failed, %d skipped\n", len(cases), counts["passed"], counts["failed"], counts["skipped"])
	}
	return cases, err
}

// usable reports why no lock can be taken at all: missing tables or permissions are not
// violated clauses. A grace period is no obstacle: the cases wait for its end.
func (a *app) usable(ctx context.Context, h *drivertest.Harness) error {
	store, err := h.Open()
	if err != nil {
		return err
	}
	c, err := fencelock.New(store, &fencelock.Options{CallTimeout: a.timeout, StoreTimeout: a.timeout})
	if err != nil {
		return withCode(exitUsage, err)
	}
	_, err = a.tryLock(ctx, c)
	if errors.Is(err, fencelock.ErrBusy) || errors.Is(err, fencelock.ErrGrace) {
		err = nil
	}
	if closed := c.Close(ctx); err == nil {
		err = closed
	}
	return err
}

// runCases runs the cases that are wanted, one after the other.
func (a *app) runCases(ctx context.Context, h *drivertest.Harness, only []string) ([]clauseCase, error) {
	done := []clauseCase{}
	for _, c := range drivertest.Cases() {
		if !chosen(c.Clause.ID, only) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		began := time.Now()
		r := c.Check(ctx, h)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // what an interrupted case found says nothing
		}
		v := clauseCase{Case: c.Name, Rule: c.Clause.Rule, Result: "passed", Seconds: time.Since(began).Seconds()}
		if r.Skipped != "" {
			v.Result, v.Why = "skipped", []string{r.Skipped}
		}
		for _, f := range r.Failures {
			v.Result = "failed"
			v.Why = append(v.Why, f.Text)
		}
		done = append(done, v)
		if a.format != "json" {
			fmt.Fprintf(a.out, "%-8s %-36s %5.1fs  %s\n", v.Result, v.Case, v.Seconds, text.Clean(strings.Join(v.Why, "; ")))
		}
	}
	if len(done) == 0 {
		return nil, usage("no clause begins with %s", strings.Join(only, " or "))
	}
	return done, errors.Join(context.Cause(ctx))
}

func chosen(id string, only []string) bool {
	for _, prefix := range only {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return len(only) == 0
}
