// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// families are the metrics as Prometheus sees them, with their labels and the
// values these have.
type families map[string]labels

type labels map[string][]string

// scrape lives through everything and returns what an exporter then shows. The
// labels job and instance are added by Prometheus.
func scrape(t *testing.T) families {
	t.Helper()
	reg := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(reg))
	must.OK(t, err)
	synctest.Test(t, func(t *testing.T) {
		store, tel := memstore.New(nil), &otelfencelock.Options{Class: otelfencelock.Template}
		p := newProcess(t, faulty(t, store, silent), nil, tel, sdkmetric.WithReader(exporter))
		if _, err := p.Once("report", time.Hour).Do(t.Context(), "1", func(context.Context, *fencelock.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
		live(t, p, newProcess(t, store, nil, nil))
		tel.MeterProvider = p.meters
		r, err := otelfencelock.NewRejections(tel)
		must.OK(t, err)
		late := fence.Check(fence.Mark{Lock: "orders/1", Token: 2}, fence.Mark{Lock: "orders/1", Token: 1})
		if r.Count(t.Context(), late) == nil {
			t.Fatal("the late holder was let in")
		}
	})
	got, err := reg.Gather()
	must.OK(t, err)
	all := families{}
	for _, f := range got {
		has := labels{"job": nil, "instance": nil}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				has[l.GetName()] = append(has[l.GetName()], l.GetValue())
			}
		}
		if f.GetType().String() != "HISTOGRAM" {
			all[f.GetName()] = has
			continue
		}
		all[f.GetName()+"_count"], all[f.GetName()+"_sum"] = has, has
		all[f.GetName()+"_bucket"] = maps.Clone(has)
		all[f.GetName()+"_bucket"]["le"] = nil
	}
	return all
}

var (
	durations = regexp.MustCompile(`\[[^\]]*\]`)
	grouping  = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selection = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	matcher   = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	number    = regexp.MustCompile(`\b[0-9][0-9a-z.]*`)
	word      = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
)

// complaints says which metrics, labels and values of an expression do not
// exist. It knows as much PromQL as the expressions here use: what is left of one
// without its ranges, labels, numbers and functions is metrics.
func (f families) complaints(expr string) (bad []string) {
	text := durations.ReplaceAllString(expr, " ")
	for _, m := range selection.FindAllStringSubmatch(text, -1) {
		if has, ok := f[m[1]]; ok {
			bad = append(bad, has.complaints(m[1], m[2])...)
		}
	}
	text = selection.ReplaceAllString(text, "$1 ")
	var groups []string
	for _, m := range grouping.FindAllStringSubmatch(text, -1) {
		groups = append(groups, word.FindAllString(m[1], -1)...)
	}
	text = number.ReplaceAllString(grouping.ReplaceAllString(text, " "), " ")
	used := 0
	for _, at := range word.FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if strings.HasPrefix(strings.TrimSpace(text[at[1]:]), "(") {
			continue // a function
		}
		if name == "or" || name == "and" || name == "unless" {
			continue
		}
		used++
		has, ok := f[name]
		if !ok {
			bad = append(bad, "there is no metric "+name)
		}
		for _, l := range groups {
			if _, known := has[l]; ok && !known {
				bad = append(bad, fmt.Sprintf("%s has no label %s to group by", name, l))
			}
		}
	}
	if used == 0 {
		bad = append(bad, "it uses no metric")
	}
	return bad
}

// complaints checks what stands between the braces behind a metric.
func (has labels) complaints(metric, braces string) (bad []string) {
	for _, m := range matcher.FindAllStringSubmatch(braces, -1) {
		values, known := has[m[1]]
		if !known {
			bad = append(bad, fmt.Sprintf("%s has no label %s", metric, m[1]))
			continue
		}
		if values == nil {
			continue // Prometheus gives it
		}
		for v := range strings.SplitSeq(m[2], "|") {
			if v != "" && !strings.HasPrefix(v, "$") && !slices.Contains(values, v) {
				bad = append(bad, fmt.Sprintf("%s has no %s %q", metric, m[1], v))
			}
		}
	}
	return bad
}

// A check that cannot fail would be worse than none.
func TestComplaints(t *testing.T) {
	f := families{"a_total": {"job": nil, "x": {"1", "2"}}, "b_bucket": {"le": nil}}
	for expr, want := range map[string]string{
		`sum by (job) (rate(a_total{x=~"1|2",job="$job"}[5m])) > 0.5`:  "",
		`rate(a_total{x="3"}[5m])`:                                     `a_total has no x "3"`,
		`histogram_quantile(0.99, sum by (le) (rate(b_bucket[$__i])))`: "",
		`sum(rate(c_total[5m]))`:                                       "there is no metric c_total",
		`sum(rate(a_total[5m])) / rate(c_total{x="1"}[5m])`:            "there is no metric c_total",
		`rate(a_total{y="1"}[5m])`:                                     "a_total has no label y",
		`sum by (z) (a_total)`:                                         "a_total has no label z to group by",
		`sum(b)`:                                                       "there is no metric b",
		`vector(1)`:                                                    "it uses no metric",
		`rate(a_total[5m]) > 1 or rate(a_total[9m]) > 1`:               "",
		`a_total or c_total`:                                           "there is no metric c_total",
	} {
		if got := strings.Join(f.complaints(expr), "; "); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}
