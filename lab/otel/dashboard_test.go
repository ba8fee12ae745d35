// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fencelock/fencelock/internal/must"
)

func TestDashboardNamesMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../otelfencelock/dashboard/grafana.json")
	must.OK(t, err)
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			Title, Type, Description string
			Targets                  []struct{ Expr, LegendFormat string }
		}
	}
	must.OK(t, json.Unmarshal(text, &dashboard))
	f := scrape(t)
	check := func(where, expr string) {
		for _, bad := range f.complaints(expr) {
			t.Errorf("%s: %s: %s", where, bad, expr)
		}
	}
	seen := 0
	for _, p := range dashboard.Panels {
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("panel %q shows nothing or does not say what", p.Title)
		}
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
			seen++
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range dashboard.Templating.List {
		if v.Name != "datasource" {
			m := values.FindStringSubmatch(v.Definition)
			if m == nil {
				t.Fatalf("variable %q asks %q, which this test does not understand", v.Name, v.Definition)
			}
			check("variable "+v.Name, "sum by ("+m[2]+") ("+m[1]+")")
		}
	}
	if seen < 10 {
		t.Errorf("only %d queries were found in the dashboard", seen)
	}
}

func TestAlertsNameMetricsThatExistAndHaveARunbook(t *testing.T) {
	text, err := os.ReadFile("../../otelfencelock/dashboard/alerts.yaml")
	must.OK(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	must.OK(t, yaml.Unmarshal(text, &file))
	f := scrape(t)
	var alerts []string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			for _, bad := range f.complaints(r.Expr) {
				t.Errorf("%s: %s: %s", r.Alert, bad, r.Expr)
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has no severity or no summary", r.Alert)
			}
			alerts = append(alerts, r.Alert)
			if url := r.Annotations["runbook_url"]; url != "https://github.com/fencelock/fencelock/blob/main/docs/runbooks.md#"+strings.ToLower(r.Alert) {
				t.Errorf("%s: runbook_url is %q, want its section in docs/runbooks.md", r.Alert, url)
			}
		}
	}
	if len(alerts) == 0 {
		t.Fatal("no alerts were found")
	}
	checkRunbooks(t, alerts)
}

// checkRunbooks: every alert has its section, every section of an alert has its alert, and in each of them an
// operator who was woken up finds the same questions answered.
func checkRunbooks(t *testing.T, alerts []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbooks.md")
	must.OK(t, err)
	there := map[string]bool{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		there[title] = true
		if strings.HasPrefix(title, "Fencelock") && !slices.Contains(alerts, title) {
			t.Errorf("the runbook %s belongs to no alert; delete it", title)
		}
		for _, label := range []string{"**Impact.**", "**First.**", "**Do.**", "**Over.**"} {
			if strings.HasPrefix(title, "Fencelock") && !strings.Contains(body, "\n"+label) {
				t.Errorf("the runbook %s has no %s", title, label)
			}
		}
	}
	for _, alert := range alerts {
		if !there[alert] {
			t.Errorf("%s has no section in docs/runbooks.md", alert)
		}
	}
}

// TestRunbooksAskForWhatExists: the queries and the panels of the runbooks are there.
func TestRunbooksAskForWhatExists(t *testing.T) {
	dashboard, err := os.ReadFile("../../otelfencelock/dashboard/grafana.json")
	must.OK(t, err)
	text, err := os.ReadFile("../../docs/runbooks.md")
	must.OK(t, err)
	f := scrape(t)
	block := regexp.MustCompile("(?s)```promql\n(.*?)```")
	panel := regexp.MustCompile(`(?i)panels? \*([^*]+)\*`)
	queries, panels := 0, 0
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(strings.TrimSpace(b[1])) {
			for _, bad := range f.complaints(strings.TrimSpace(line)) {
				t.Errorf("%s: %s", bad, line)
			}
			queries++
		}
	}
	for _, m := range panel.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(dashboard), `"title": "`+m[1]+`"`) {
			t.Errorf("the runbooks name the panel %q, which the dashboard does not have", m[1])
		}
		panels++
	}
	if queries < 5 || panels < 5 {
		t.Errorf("only %d queries and %d panels were found in the runbooks", queries, panels)
	}
}

// The table in the documentation has every metric, under both of its names.
func TestDocumentationListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability.md")
	must.OK(t, err)
	for name := range scrape(t) {
		if strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_bucket") || !strings.HasPrefix(name, "fencelock_") {
			continue
		}
		name = strings.TrimSuffix(name, "_count")
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/observability.md does not list %s", name)
		}
	}
}
