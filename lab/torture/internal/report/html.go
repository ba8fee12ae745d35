// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"add":  func(a, b int) int { return a + b },
	"add1": func(a float64, b int) float64 { return a + float64(b) },
	"class": func(s cell.Status) string {
		return map[cell.Status]string{cell.Held: "held", cell.Allowed: "allowed", cell.Failed: "failed", cell.NotRun: "notrun", cell.NotApplicable: "na"}[s]
	},
}).Parse(pageText))

// shown is one cell on the page.
type shown struct {
	cell.Result
	Chart *chart
	// Again is the command that runs it again.
	Again    string
	Unfenced int
	// Why is the reason in words; Short is the verdict in few letters.
	Why   string
	Short string
	// Objections are the violations but for those of the measure U.
	Objections []check.Violation
}

type row struct {
	Fault string
	Cells [][]*shown // for each deployment, one for each seed
}

type view struct {
	When        string
	Deployments []string
	Rows        []*row
	Cells       []*shown
	Ran, Failed int
	Unfenced    int
	Refused     int
	// Absent are the cells that do not apply, by reason.
	Absent []string
}

// HTML writes one page that needs nothing else: neither a network nor a script.
func HTML(w io.Writer, results []cell.Result, when time.Time) error {
	v := &view{When: when.UTC().Format("2006-01-02 15:04 MST")}
	v.Ran, v.Failed = Tally(results)
	column, rows := map[string]int{}, map[string]*row{}
	for _, r := range results {
		if _, ok := column[r.Column()]; !ok {
			column[r.Column()] = len(v.Deployments)
			v.Deployments = append(v.Deployments, r.Column())
		}
	}
	for _, r := range results {
		s := &shown{Result: r, Chart: draw(r), Unfenced: r.Counts[check.U], Short: short(r), Why: why(r), Again: again(r)}
		for _, x := range r.Violations {
			if x.Property != check.U && (x.Property != check.O || strings.HasPrefix(r.Fault, "calm")) {
				s.Objections = append(s.Objections, x)
			}
		}
		line := rows[r.Fault]
		if line == nil {
			line = &row{Fault: r.Fault, Cells: make([][]*shown, len(v.Deployments))}
			rows[r.Fault] = line
			v.Rows = append(v.Rows, line)
		}
		i := column[r.Column()]
		line.Cells[i] = append(line.Cells[i], s)
		if r.Status != cell.NotApplicable {
			v.Cells = append(v.Cells, s)
		}
		v.Unfenced += s.Unfenced
		v.Refused += r.Refused
	}
	v.Absent = reasons(results, cell.NotApplicable)
	return page.Execute(w, v)
}

// again is the command that runs a cell again.
func again(r cell.Result) string {
	text := "go run ./lab/torture -server " + r.Deployment
	if r.Fault != "plan" { // by its name, so that it is judged as it was
		text += " -fault " + r.Fault
	} else {
		text += " -plan '" + r.Plan + "'"
	}
	if r.Lock != "" {
		text += " -lock " + r.Lock
	}
	if r.Linger {
		text += " -linger"
	}
	if r.Locks != 0 {
		text += fmt.Sprintf(" -locks %d", r.Locks)
	}
	if r.Long != 0 {
		text += fmt.Sprintf(" -long %d", r.Long)
	}
	return text + fmt.Sprintf(" -seed %d", r.Seed)
}
