// SPDX-License-Identifier: Apache-2.0

package otelfencelock_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestDashboardNamesMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("dashboard/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			Title, Type, Description string
			Targets                  []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
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
	text, err := os.ReadFile("dashboard/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	f := scrape(t)
	var pages []string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			for _, bad := range f.complaints(r.Expr) {
				t.Errorf("%s: %s: %s", r.Alert, bad, r.Expr)
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has no severity or no summary", r.Alert)
			}
			page := r.Alert + ".md"
			pages = append(pages, page)
			if url := r.Annotations["runbook_url"]; url != "https://github.com/fencelock/fencelock/blob/main/docs/runbooks/"+page {
				t.Errorf("%s: runbook_url is %q, want its page in docs/runbooks", r.Alert, url)
			}
			checkRunbook(t, r.Alert)
		}
	}
	if len(pages) == 0 {
		t.Fatal("no alerts were found")
	}
	there, err := filepath.Glob("../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range there {
		if base := filepath.Base(p); base != "README.md" && !slices.Contains(pages, base) {
			t.Errorf("%s belongs to no alert; delete it", p)
		}
	}
}

// checkRunbook: an operator who was woken up finds the same questions answered.
func checkRunbook(t *testing.T, alert string) {
	t.Helper()
	text, err := os.ReadFile("../docs/runbooks/" + alert + ".md")
	if err != nil {
		t.Errorf("%s has no runbook: %v", alert, err)
		return
	}
	for _, heading := range []string{"# " + alert, "## Symptom", "## Impact", "## First command", "## Diagnose", "## Resolve", "## Follow-up"} {
		if !slices.Contains(strings.Split(string(text), "\n"), heading) {
			t.Errorf("the runbook of %s has no %q", alert, heading)
		}
	}
}

// The table in the documentation has every metric, under both of its names.
func TestDocumentationListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
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
