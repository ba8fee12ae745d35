// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/internal/checkout"
	"github.com/fencelock/fencelock/lab/load/internal/results"
)

// Result is what an event did. It is kept as a file.
type Result struct {
	Event  string    `json:"event"`
	Began  time.Time `json:"began"`
	Commit string    `json:"commit,omitempty"` // of fencelock
	Size   size      `json:"size"`
	// Lost are leases that were lost and should not have been; Why is the first reason.
	Lost int64  `json:"lost"`
	Why  string `json:"why,omitempty"`
	// Calm is how long after the event everything was as before.
	Calm time.Duration `json:"calm"`
	// PeakCPU is the largest share of a core that the server used in a second, CPU its processor
	// time in all, Connections the most that it had.
	PeakCPU     float64 `json:"peak_cpu"`
	CPU         float64 `json:"cpu"`
	Connections int     `json:"connections"`
	// Arrivals are the requests since the event.
	Arrivals Histogram `json:"arrivals"`
	// Notes are further numbers, with their names.
	Notes []Note `json:"notes,omitempty"`
}

// Note is a number that only one event has.
type Note struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

func (r *Result) note(name string, value float64) { r.Notes = append(r.Notes, Note{name, value}) }

// calmVsTTL is the time until calm as a multiple of the TTL.
func (r *Result) calmVsTTL() float64 { return r.Calm.Seconds() / r.Size.TTL.Seconds() }

// String is the result in words.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d sessions in %d processes, %d leases each, TTL %v\n", r.Event, r.Size.Sessions, r.Size.Processes, r.Size.Leases, r.Size.TTL)
	fmt.Fprintf(&b, "  lost that should not be: %d %s\n  calm after %.1f s, %.2f TTLs\n", r.Lost, r.Why, r.Calm.Seconds(), r.calmVsTTL())
	fmt.Fprintf(&b, "  server: at most %.0f %% of a core in a second, %.1f s in all, %d connections\n", 100*r.PeakCPU, r.CPU, r.Connections)
	fmt.Fprintf(&b, "  requests in 100 ms: the most are %.1f times the mean\n", r.Arrivals.peakVsMean())
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  %s: %s\n", n.Name, figure.Number(n.Value))
	}
	return b.String()
}

// write keeps the result in a folder.
func (r *Result) write(dir string) error {
	r.Commit = checkout.Commit(".")
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	// The bins fill one line, not thousands.
	head, bins, ok := strings.Cut(string(text), `"bins": [`)
	if ok {
		inner, tail, _ := strings.Cut(bins, "]")
		text = []byte(head + `"bins": [` + strings.Join(strings.Fields(inner), "") + "]" + tail)
	}
	return results.Write(dir, r.Event, string(text))
}

// table is the results as a table of Markdown.
func table(all map[string]*Result) string {
	b := "| Event | Sessions, leases | TTL | Lost | Calm after | Server at most | Server in all | Connections | Requests in 100 ms: most, mean |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		peak := "not measured"
		if r.PeakCPU > 0 {
			peak = fmt.Sprintf("%.0f %% of a core", 100*r.PeakCPU)
		}
		b += fmt.Sprintf("| %s | %d, %d | %v | %d | %.1f s, %.2f TTLs | %s | %.1f s | %d | %.0f, %.1f |\n", name, r.Size.Sessions, r.Size.Sessions*r.Size.Leases,
			r.Size.TTL, r.Lost, r.Calm.Seconds(), r.calmVsTTL(), peak, r.CPU, r.Connections, r.Arrivals.mean()*r.Arrivals.peakVsMean(), r.Arrivals.mean())
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, n := range all[name].Notes {
			b += fmt.Sprintf("- %s: %s %s\n", name, n.Name, figure.Number(n.Value))
		}
	}
	return b
}

// Kept prints the figures of the results in a folder, and draws the storm into a file. An event without a result is missing: nothing
// is known of it.
func Kept(dir, file string) error {
	all, err := results.Read[Result](dir)
	if err != nil {
		return err
	}
	var missing error
	for name := range events {
		if all[name] == nil {
			missing = errors.Join(missing, fmt.Errorf("%s: missing; make events writes it", name))
		}
	}
	fmt.Print(table(all))
	if f := all["failover"]; f != nil {
		figure.Print("scale-failover-sessions", f.Size.Sessions, figure.AtLeast(5000))
		figure.Print("scale-failover-leases", f.Size.Sessions*f.Size.Leases, figure.AtLeast(500_000))
		figure.Print("scale-failover-leases-lost", f.Lost, figure.Exactly(0))
		figure.Print("scale-failover-calm-vs-ttl", f.calmVsTTL(), figure.AtMost(2))
	}
	if f := all["restart"]; f != nil {
		figure.Print("scale-storm-peak-vs-mean", f.Arrivals.peakVsMean(), figure.AtMost(4))
		// All sessions are opened by then; what follows is up to the library alone.
		opened := min(int(f.Size.TTL/5/binWidth), len(f.Arrivals.Bins))
		figure.Print("scale-storm-after-opening-peak-vs-mean", Histogram{Bins: f.Arrivals.Bins[opened:]}.peakVsMean(), figure.AtMost(4))
		missing = errors.Join(missing, os.WriteFile(file, []byte(picture(f)), 0o644))
	}
	return missing
}
