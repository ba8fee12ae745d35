// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/faultstore"
)

// process stands for a separate process: a client, and where its telemetry
// goes.
type process struct {
	*fencelock.Client
	reader *sdkmetric.ManualReader
	meters *sdkmetric.MeterProvider
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
}

// newProcess makes a process; tel may be nil, its providers are replaced.
func newProcess(t *testing.T, store driver.Store, opts *fencelock.Options, tel *otelfencelock.Options, more ...sdkmetric.Option) *process {
	t.Helper()
	p := &process{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	p.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p.spans))
	var with otelfencelock.Options
	if tel != nil {
		with = *tel
	}
	p.meters = sdkmetric.NewMeterProvider(append(more, sdkmetric.WithReader(p.reader))...)
	with.MeterProvider, with.TracerProvider = p.meters, p.traces
	var err error
	p.Client, err = otelfencelock.New(store, opts, &with)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// metrics returns what was measured, by name and attributes; of a histogram the
// count. The store is left out.
func (p *process) metrics(t *testing.T) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, m := range collect(t, p.reader) {
		add := func(set attribute.Set, n int64) {
			var words []string
			for _, kv := range set.ToSlice() {
				if kv.Key != "fencelock.store" {
					words = append(words, strings.TrimPrefix(string(kv.Key), "fencelock.")+"="+kv.Value.AsString())
				}
			}
			all[m.Name+"{"+strings.Join(words, ",")+"}"] = n
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, d := range data.DataPoints {
				add(d.Attributes, d.Value)
			}
		case metricdata.Histogram[float64]:
			for _, d := range data.DataPoints {
				add(d.Attributes, int64(d.Count))
			}
		default:
			t.Fatalf("%s is a %T", m.Name, m.Data)
		}
	}
	return all
}

func (p *process) wantMetrics(t *testing.T, want map[string]int64) {
	t.Helper()
	got := p.metrics(t)
	for name, n := range want {
		if v, ok := got[name]; !ok || v != n {
			t.Errorf("%s is %d (there: %v), want %d", name, v, ok, n)
		}
	}
	if t.Failed() {
		var lines []string
		for name, n := range got {
			lines = append(lines, fmt.Sprint(name, " ", n))
		}
		slices.Sort(lines)
		t.Log("\n" + strings.Join(lines, "\n"))
	}
}

func collect(t *testing.T, reader sdkmetric.Reader) []metricdata.Metrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	must.OK(t, reader.Collect(context.Background(), &rm))
	var all []metricdata.Metrics
	for _, s := range rm.ScopeMetrics {
		all = append(all, s.Metrics...)
	}
	return all
}

// lock wants a lease.
func lock(t *testing.T, ctx context.Context, c *fencelock.Client, name string, opts ...fencelock.LockOption) *fencelock.Lease {
	t.Helper()
	l, err := c.Mutex(name, opts...).Lock(ctx)
	must.OK(t, err)
	return l
}

func unlock(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	if err := l.Unlock(context.Background()); err != nil {
		t.Errorf("unlock %q: %v", l.Name(), err)
	}
}

// ended waits, in a bubble, for the end of a lease.
func ended(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	select {
	case <-l.Context().Done():
		synctest.Wait() // hooks are called after the holder
	case <-time.After(time.Hour):
		t.Fatalf("the lease of %q did not end", l.Name())
	}
}

// faulty bends the calls to a store.
func faulty(t *testing.T, store driver.Store, fault string) driver.Store {
	t.Helper()
	s, err := faultstore.Wrap(store, faultstore.MustParse(fault), nil)
	must.OK(t, err)
	t.Cleanup(s.Wait)
	return s
}
