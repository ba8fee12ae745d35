// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

const (
	scrapeEvery = 15 * time.Second
	watched     = 30 * time.Minute
	happens     = 10 * time.Minute // when something goes wrong in a scenario
)

// scenario is half an hour of a program, and the alerts that must fire in it.
type scenario struct {
	name   string
	fault  string
	refuse bool // the store refuses the settings
	live   func(t *testing.T, w *world)
	fired  []string
	soon   time.Duration // the first alert fires within this time; 0: any
}

// world is what a scenario has: a program that is scraped, and another that is not.
type world struct {
	*process
	other      *process
	rejections *otelfencelock.Rejections
}

// work takes short locks one after the other, with a deadline as a request has.
func (w *world) work(t *testing.T, pause time.Duration) {
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		l, err := w.Mutex(fmt.Sprintf("orders/%d", i)).Lock(ctx)
		cancel()
		if err == nil {
			_ = l.Unlock(context.Background()) // the store may be away
		}
		select {
		case <-time.After(pause):
		case <-t.Context().Done():
			return
		}
	}
}

// hold takes a lock and takes it again when it was lost.
func (w *world) hold(t *testing.T) {
	for t.Context().Err() == nil {
		if l, err := w.Mutex("report").Lock(t.Context()); err == nil {
			<-l.Context().Done()
		}
	}
}

var scenarios = []scenario{
	{name: "nothing", live: func(t *testing.T, w *world) { go w.hold(t); w.work(t, 5*time.Second) }},
	{name: "the store refuses connections, short locks", fault: "during(10m, 30m, refuse)",
		live:  func(t *testing.T, w *world) { w.work(t, time.Second) },
		fired: []string{"FencelockStoreUnavailable"}, soon: 5 * time.Minute},
	{name: "the store is silent, short locks", fault: "during(10m, 30m, lose(request))",
		live:  func(t *testing.T, w *world) { w.work(t, 5*time.Second) },
		fired: []string{"FencelockStoreUnavailable"}, soon: 5 * time.Minute},
	{name: "the store fails, a lock every five minutes", fault: "during(10m, 30m, fail)",
		live:  func(t *testing.T, w *world) { w.work(t, 5*time.Minute) },
		fired: []string{"FencelockStoreUnavailable"}, soon: 15 * time.Minute},
	{name: "the store is silent, a lease is held", fault: "during(10m, 30m, lose(request))",
		live:  func(t *testing.T, w *world) { w.hold(t) },
		fired: []string{"FencelockLeaseLost", "FencelockStoreUnavailable"}, soon: 2 * time.Minute},
	{name: "a failover of five seconds", fault: "during(10m, 10m5s, refuse)",
		live: func(t *testing.T, w *world) { go w.hold(t); w.work(t, 5*time.Second) }},
	{name: "a lock is busy", live: func(t *testing.T, w *world) {
		lock(t, t.Context(), w.other.Client, "busy")
		for t.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if _, err := w.Mutex("busy").Lock(ctx); t.Context().Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a timeout", err)
			}
			cancel()
		}
	}},
	{name: "the first late writer of its class", live: func(t *testing.T, w *world) {
		time.Sleep(happens)
		_ = w.rejections.Count(t.Context(), fence.Check(fence.Mark{Lock: "orders/1", Token: 2}, fence.Mark{Lock: "orders/1", Token: 1}))
	}, fired: []string{"FencelockStaleWriterRefused"}, soon: 30 * time.Second},
	{name: "the first lease of its class is lost before a scrape", fault: "during(10m, 30m, on(keepalive, refuse))",
		live: func(t *testing.T, w *world) {
			time.Sleep(happens + time.Second)
			ended(t, lock(t, t.Context(), w.Client, "new/class"))
		}, fired: []string{"FencelockLeaseLost", "FencelockStoreUnavailable"}, soon: time.Minute},
	{name: "a job fails once", live: func(t *testing.T, w *world) {
		once := w.Once("report", time.Hour)
		for i := range 3 {
			time.Sleep(happens / 2)
			_, _ = once.Do(t.Context(), fmt.Sprint(i), func(context.Context, *fencelock.Lease) error {
				if i == 1 {
					return errors.New("no disk")
				}
				return nil
			})
		}
	}, fired: []string{"FencelockOccurrenceNotRun"}, soon: time.Minute},
	{name: "a job is due while the store is away", fault: "during(10m, 11m, refuse)", live: func(t *testing.T, w *world) {
		time.Sleep(happens + 5*time.Second)
		_, _ = w.Once("report", time.Hour).Do(t.Context(), "1", func(context.Context, *fencelock.Lease) error { return nil })
	}, fired: []string{"FencelockOccurrenceNotRun", "FencelockStoreUnavailable"}, soon: time.Minute},
	{name: "the settings are refused", refuse: true, live: func(t *testing.T, w *world) {
		time.Sleep(happens)
		w.work(t, time.Minute)
	}, fired: []string{"FencelockStoreRefuses"}, soon: 2 * time.Minute},
}

// refusing is a store whose namespace has other settings.
type refusing struct{ driver.Store }

// Open refuses.
func (refusing) Open(context.Context, driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	return nil, driver.Renewal{}, fmt.Errorf("the namespace was set up with maxttl=1m: %w", driver.ErrRefused)
}

// series are samples by name and labels, as promtool writes them; "_" is a missing sample.
type series map[string][]string

// play lives through a scenario and scrapes it.
func (sc *scenario) play(t *testing.T) series {
	reg := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(reg))
	must.OK(t, err)
	all := series{}
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(nil)
		var store driver.Store = mem
		if sc.refuse {
			store = refusing{mem}
		}
		if sc.fault != "" {
			store = faulty(t, store, sc.fault)
		}
		opts, tel := &fencelock.Options{TTL: 10 * time.Second}, &otelfencelock.Options{Class: otelfencelock.Template}
		w := &world{process: newProcess(t, store, opts, tel, sdkmetric.WithReader(exporter)), other: newProcess(t, mem, nil, nil)}
		tel.MeterProvider = w.meters
		w.rejections, err = otelfencelock.NewRejections(tel)
		must.OK(t, err)
		go sc.live(t, w)
		for n := range int(watched / scrapeEvery) {
			time.Sleep(scrapeEvery)
			all.scrape(t, reg, n)
		}
	})
	return all
}

// scrape adds the n-th sample of every series.
func (s series) scrape(t *testing.T, reg *prometheus.Registry, n int) {
	t.Helper()
	got, err := reg.Gather()
	must.OK(t, err)
	for _, f := range got {
		for _, m := range f.Metric {
			labels := []string{`job="shop"`, `instance="a"`}
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			add := func(suffix string, v float64, more ...string) {
				name := f.GetName() + suffix + "{" + strings.Join(append(slices.Clone(labels), more...), ",") + "}"
				for len(s[name]) < n {
					s[name] = append(s[name], "_")
				}
				s[name] = append(s[name], fmt.Sprint(v))
			}
			switch {
			case m.Histogram != nil:
				add("_count", float64(m.Histogram.GetSampleCount()))
				for _, b := range m.Histogram.Bucket {
					add("_bucket", float64(b.GetCumulativeCount()), fmt.Sprintf("le=%q", fmt.Sprint(b.GetUpperBound())))
				}
				add("_bucket", float64(m.Histogram.GetSampleCount()), `le="+Inf"`)
			case m.Counter != nil:
				add("", m.Counter.GetValue())
			case m.Gauge != nil:
				add("", m.Gauge.GetValue())
			}
		}
	}
}

// ruleTest is one test of promtool test rules.
type ruleTest struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Queries []query `yaml:"promql_expr_test"`
}

type query struct {
	Expr    string   `yaml:"expr"`
	At      string   `yaml:"eval_time"`
	Samples []sample `yaml:"exp_samples"`
}

type sample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// firing asks which alerts have fired until a time.
func firing(until time.Duration, which string, fired ...string) query {
	q := query{Expr: fmt.Sprintf(`max by (alertname) (max_over_time(ALERTS{alertstate="firing"%s}[%v]))`, which, until), At: until.String()}
	for _, name := range fired {
		q.Samples = append(q.Samples, sample{fmt.Sprintf("{alertname=%q}", name), 1})
	}
	return q
}

func (sc *scenario) test(all series) ruleTest {
	rt := ruleTest{Name: sc.name, Interval: scrapeEvery.String()}
	for name, values := range all {
		rt.Series = append(rt.Series, struct {
			Series string `yaml:"series"`
			Values string `yaml:"values"`
		}{name, "_ " + strings.Join(values, " ")}) // the first scrape is one interval after the start
	}
	rt.Queries = []query{firing(happens-scrapeEvery, ""), firing(watched, "", sc.fired...)}
	if len(sc.fired) > 0 {
		rt.Queries = append(rt.Queries, firing(happens+sc.soon, fmt.Sprintf(",alertname=%q", sc.fired[0]), sc.fired[0]))
	}
	return rt
}

// TestAlertsFire plays programs in simulated time, scrapes them as Prometheus
// does, and lets promtool decide which of the shipped alerts fire.
func TestAlertsFire(t *testing.T) {
	promtool := needPromtool(t)
	rules, err := filepath.Abs("../../otelfencelock/dashboard/alerts.yaml")
	must.OK(t, err)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			text, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": scrapeEvery.String(),
				"tests": []ruleTest{sc.test(sc.play(t))}})
			must.OK(t, err)
			file := filepath.Join(t.TempDir(), "test.yaml")
			must.OK(t, os.WriteFile(file, text, 0o600))
			if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestRuleTestsPassAndNameSeriesThatExist: the file for people who change the
// rules tests what is exported.
func TestRuleTestsPassAndNameSeriesThatExist(t *testing.T) {
	text, err := os.ReadFile("../../otelfencelock/dashboard/alerts_test.yaml")
	must.OK(t, err)
	var file struct{ Tests []ruleTest }
	must.OK(t, yaml.Unmarshal(text, &file))
	f, seen := scrape(t), 0
	for _, rt := range file.Tests {
		for _, s := range rt.Series {
			for _, bad := range f.complaints(s.Series) {
				t.Errorf("%s: %s", rt.Name, bad)
			}
			seen++
		}
	}
	if seen < 5 {
		t.Errorf("only %d series were found", seen)
	}
	if out, err := exec.Command(needPromtool(t), "test", "rules", "../../otelfencelock/dashboard/alerts_test.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func needPromtool(t *testing.T) string {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; on Debian: apt-get install prometheus")
	}
	return promtool
}
